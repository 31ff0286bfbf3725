"""The records that `fedsdg bench ... --json` writes keep the shape that others rely on."""

from __future__ import annotations

import json

import pytest

from fedsdg.benchmarks import crypto, job
from fedsdg.crypto import backends


@pytest.fixture(scope="module")
def record():
    """A real, small measurement: one key size, a small mini-batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crypto, "SHAPE", (8, 4, 2))
        patch.setattr(crypto, "SIZES", (2048,))
        patch.setattr(crypto, "peak_mib", lambda bits, name: 1.0)
        measured = crypto.run(quick=True)
        page = crypto.to_markdown(measured)
    return json.loads(crypto.to_json(measured)), page


def test_the_crypto_record_has_the_promised_keys(record):
    measured, _ = record
    assert measured["backend"] in backends.NAMES
    assert set(measured["ops"]["2048"]) == {"encrypt", "decrypt", "add", "multiply", "dot"}
    batch = measured["minibatch"]["2048"]
    assert {"phe_s", "gmpy2", "limit_s", "peak_mib"} <= set(batch)
    names = ["gmpy2"] if backends.native_problem() else ["gmpy2", "native"]
    for name in names:
        assert batch[name]["s"] > 0
        assert batch[name]["speedup"] == pytest.approx(batch["phe_s"] / batch[name]["s"])
    if "native" in names:
        assert batch["distance_from_limit"] == pytest.approx(batch["native"]["s"] / batch["limit_s"])


def test_the_crypto_page_shows_ratios_machine_and_date(record):
    measured, page = record
    assert measured["date"] in page
    assert measured["machine"]["cpu"] in page
    assert "against `phe`" in page


def test_the_job_record_shows_cost_by_open_dimensions(monkeypatch):
    monkeypatch.setattr(job, "WIDTHS", (4, 2))
    measured = json.loads(job.to_json(job.run(quick=True)))
    assert [row["embedding"] for row in measured["by_width"]] == [4, 2]
    assert "| 4 |" in job.to_markdown(measured)
