"""Whether the engines' packages are as they should be; `conftest.py` asks before any engine test is collected.

Tests of an engine that is not installed are skipped (`pytest.importorskip`): fedsdg works without engines. Two things
must not look like that. Where engines are meant to be there (`FEDSDG_REQUIRE_ENGINES=1`, which `make test` and
`make test-engines` set) a missing one is an error. And one that is installed and cannot be imported always is.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from importlib.util import find_spec

REQUIRED = "FEDSDG_REQUIRE_ENGINES"
#: What engine tests import, and the extra that brings it. Ray is left out: `make` does not install it.
PACKAGES = {
    "nvflare": "flare",
    "flwr": "flower",
    "grpc": "flower",
    "cryptography": "flower",
    "tomli_w": "flower",
    "psutil": "flare",
}


def check_engines(packages: Mapping[str, str] = PACKAGES) -> None:
    """Import every package that is there; fail if one is broken, or missing where none may be."""
    required = os.environ.get(REQUIRED, "0") not in ("", "0")
    for module, extra in packages.items():
        if find_spec(module) is not None:
            importlib.import_module(module)
        elif required:
            raise ModuleNotFoundError(
                f'{module} is not installed, and {REQUIRED} is set: install it with pip install -e ".[{extra}]"',
                name=module,
            )
