"""What lies in a folder that somebody wants a report of, or why there is nothing to report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias

from fedsdg.errors import ConfigError
from fedsdg.experiments.checked_files import read_json
from fedsdg.experiments.results import DESCRIPTION, RESULTS
from fedsdg.learning.client_files import read_card
from fedsdg.report.run_forms import Anything
from fedsdg.run_folder import partial_of

Kind: TypeAlias = Literal["run", "server", "client", "experiment"]


def kind_of(folder: Path) -> Kind:
    """Return what a folder holds: a run of all parties, one party's part of a run, or an experiment."""
    if not folder.exists():
        if partial_of(folder).is_dir():
            raise ConfigError(_unfinished(folder))
        raise ConfigError(f"There is no folder {folder}.")
    if not folder.is_dir():
        raise ConfigError(f"{folder} is a file; a report is made of the folder of a run or of an experiment.")
    if os.path.lexists(folder / DESCRIPTION):  # whatever it is: reading it says what is wrong
        return "experiment"
    if (folder / RESULTS).is_file():
        raise ConfigError(f"{folder} has {RESULTS} and no {DESCRIPTION}: nobody knows which experiment it belongs to.")
    if (folder / "settings.json").is_file():
        if not (folder / "selection.json").is_file():
            raise ConfigError(_unfinished(folder))
        return "run"
    if (folder / "model.json").is_file():
        read_json(folder / "model.json", Anything)
        return "server" if read_card(folder).get("party") == "server" else "client"
    if (folder / "private_seed").is_file():
        raise ConfigError(f"{folder} holds a party's part of a run that is not finished; there is nothing to report.")
    raise ConfigError(f"{folder} holds neither a finished run (fedsdg run) nor an experiment (fedsdg experiment run).")


def _unfinished(folder: Path) -> str:
    final = folder.with_name(folder.name.removesuffix(".partial"))
    return f"The run {final} is not finished: go on with it first (fedsdg resume {final})."
