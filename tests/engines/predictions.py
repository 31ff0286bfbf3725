"""What a prediction between organisations must equal: the same parties' models and rows, in one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from fedsdg.party import Party
from fedsdg.scoring import predict, scores_frame

#: An id that no client holds: it gets no score, and the file says why.
UNKNOWN = "nobody"
#: Ids whose scores are wanted, the unknown one among them.
ASKED = 41


def want_scores(party_file: Path, known: Path) -> None:
    """Fill in what `fedsdg deploy` began in the label owner's file: it wants scores of some ids that it knows."""
    text = party_file.read_text()
    for line in ("[rows_to_score]", 'table = "next_month.csv"', "id = "):
        assert text.count(f"# {line}") == 1
        text = text.replace(f"# {line}", line)
    party_file.write_text(text)
    ids = pl.read_csv(known)["customer_id"].cast(str).head(ASKED - 1)
    pl.DataFrame({"customer_id": [*ids, UNKNOWN]}).write_csv(party_file.with_name("next_month.csv"))


def scored_in_one_process(folder: Path, parties: Mapping[str, Party], owner: str, run: str) -> str:
    """Return the file that one process writes which holds every party's part of the model and its rows."""
    (folder / "clients").mkdir(parents=True)
    rows = {}
    for name, party in parties.items():
        source = party.rows_to_score if name == owner else party.rows
        assert source is not None
        rows[name] = source.table
        place = folder / "server" if name == owner else folder / "clients" / name
        place.symlink_to(party.run_folder(run))
    return scores_frame(predict(folder, rows), "customer_id").write_csv()
