"""OpenML: a description of the data set as JSON says where its ARFF file lies and which md5 it has.

Not yet tried against the live service. What it relies on is public: the numbers of the data sets, the fields of the
description, the rows of MADELON 1485 as others print them (training, then validation rows, class 2 for
-1), and for ARCENE 1458 its columns and how often each class occurs (112 times 2, and -1 is as frequent). Whether an
answer is accepted is decided by the digest of the content in the registry: a file with other rows, another order or
other labels is refused, and the data set is then not to be had from here.

Not listed, because nothing could vouch for the content or because it is another table:

* GISETTE (41026, 1573): the registry has no digest of its content, and the digests of UCI's files (`nips2003`) need the
  numbers as whole numbers in UCI's order. OpenML has it as sparse rows, and nothing at hand says that they are these
  numbers and not scaled ones.
* ISOLET (300): all 7,797 rows, not the 1,560 of the collection.
* ARCENE (41157): as far as known without the validation rows.
* BASEHOCK, RELATHE, PCMAC, COIL20: no number of theirs could be confirmed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from fedsdg.datasets import arff
from fedsdg.datasets.download import cache_folder, fetch, fetch_description
from fedsdg.datasets.fetched import Fetched
from fedsdg.errors import DataError

HOME = "https://www.openml.org"
DOMAIN = "openml.org"
MD5 = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Listing:
    """One data set of OpenML, and how its labels are spelt there."""

    number: int
    shape: tuple[int, int]
    class_name: str
    labels: Mapping[str, int]


SETS = {
    "MADELON": Listing(1485, (2600, 500), "Class", {"1": 1, "2": -1}),
    "ARCENE": Listing(1458, (200, 10000), "Class", {"1": 1, "2": -1}),
}


def address(name: str) -> str:
    """Return where the description of a data set lies."""
    return f"{HOME}/api/v1/json/data/{SETS[name].number}"


def read(name: str) -> Fetched:
    """Fetch a data set; a file that is in the cache is not asked for again, and its description neither."""
    listing, url = SETS[name], address(name)
    path = cache_folder() / f"openml-{listing.number}.arff"
    if not path.is_file():
        path = _download(url, path.name)
    try:
        features, classes = arff.read(path, listing.shape, listing.class_name, frozenset(listing.labels))
    except arff.ArffError as problem:
        path.unlink(missing_ok=True)
        raise DataError(f"{url}: its file is not the ARFF file of {name}: {problem}") from None
    return Fetched(features, np.array([listing.labels[each] for each in classes]), url, path)


def _download(url: str, file_name: str) -> Path:
    """Fetch the file that a description names, if it lies with OpenML and has the md5 that the description states."""
    try:
        description = json.loads(fetch_description(url))["data_set_description"]
        file_url, md5 = description["url"], description["md5_checksum"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{url}: not a description with the url and the md5_checksum of a file") from None
    if not isinstance(file_url, str) or not isinstance(md5, str) or not MD5.fullmatch(md5.lower()):
        raise DataError(f"{url}: the url or the md5_checksum of the description cannot be used")
    if not _with_openml(file_url):
        raise DataError(f"{url}: the description names a file that is not with {DOMAIN}; it is not fetched")
    return fetch(file_url, file_name, md5.lower(), "md5")


def _with_openml(file_url: str) -> bool:
    try:
        host = urlsplit(file_url).hostname or ""
    except ValueError:
        return False
    return host == DOMAIN or host.endswith(f".{DOMAIN}")
