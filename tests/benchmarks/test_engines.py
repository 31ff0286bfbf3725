"""`fedsdg bench engines`: the record keeps its shape, the page tells it, and a run in one process is a real one."""

from __future__ import annotations

import json
import signal
from functools import partial

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")
pytest.importorskip("flwr", reason="needs fedsdg[flower]")

from fedsdg.benchmarks import engine_case, engines
from fedsdg.benchmarks.engine_case import carrying, learned, seconds_per_batch, wire_bytes
from fedsdg.benchmarks.engine_files import JobSize, write_files
from fedsdg.benchmarks.engine_hosts import Loopback
from fedsdg.benchmarks.engine_parties import CLIENTS, device_bytes, in_one_process
from fedsdg.errors import ConfigError

TINY = JobSize(rows=80, columns=20, gated=2, compact=1, batch=16)
KEYS = {
    *("engine", "load", "training_s", "phases_s", "steps", "start_s", "end_s", "exchanges", "ms_per_exchange"),
    *("carrying_ms_per_exchange", "cpu_s", "codec_bytes", "wire_bytes", "learned", "selected"),
}
SECONDS = {"in process": 100.0, "flare": 125.0, "flower": 130.0}


class Hosts(Loopback):
    """Hosts in name only, with a cable of some length."""

    milliseconds = 0.0

    def __init__(self, parties):
        self.parties = parties

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def lengthen(self, party, milliseconds):
        self.milliseconds = milliseconds

    def round_trip(self, start, end):
        return 2 * self.milliseconds / 1000


def made_up(engine, size, hosts, learned="the same"):
    """A case like a real one, with numbers that can be recognised: four round trips for every batch."""
    steps = size.gated + size.compact
    way = 4 * steps * 2 * getattr(hosts, "milliseconds", 0.0) / 1000
    return {
        "engine": engine,
        "load": 0.5,
        "training_s": SECONDS[engine],
        "phases_s": {"gated": steps * 0.25 + way, "compact": 0.0, "total": SECONDS[engine]},
        "steps": {"gated": size.gated, "compact": size.compact},
        "start_s": 12.0,
        "end_s": 3.0,
        "exchanges": 2000,
        "ms_per_exchange": 50.0,
        "carrying_ms_per_exchange": 7.0,
        "cpu_s": 110.0,
        "codec_bytes": 1_000_000,
        "wire_bytes": None if engine == "in process" else 1_100_000,
        "learned": learned,
        "selected": {"first": 1, "second": 2},
    }


@pytest.fixture
def permitted(monkeypatch):
    """A machine on which hosts can be had, whatever this one permits."""
    monkeypatch.setattr(engines, "Namespaces", Hosts)
    monkeypatch.setattr(engines, "no_namespaces", lambda: None)
    monkeypatch.setattr(engines, "no_delays", lambda: None)


@pytest.fixture
def record(permitted):
    return engines.run(measure=made_up)


@pytest.fixture(scope="module")
def case():
    """A real run in one process, a fresh one."""
    return engine_case.measure("in process", TINY, Loopback())


def test_a_run_in_one_process_says_what_it_cost(case):
    assert set(case) == set(made_up("flare", TINY, Loopback())) == KEYS
    assert case["steps"] == {"gated": 2, "compact": 1}
    assert case["exchanges"] > 20
    assert case["codec_bytes"] > 100_000
    assert case["wire_bytes"] is None  # nothing left the process
    assert 0 <= case["carrying_ms_per_exchange"] < case["ms_per_exchange"]
    assert case["training_s"] > 0 < case["cpu_s"]


@pytest.mark.parametrize("other_seeds", [False, True])
def test_another_run_learns_the_same_unless_the_seeds_are_others(case, tmp_path, other_seeds):
    write_files(tmp_path / "files", TINY)
    for name in CLIENTS if other_seeds else ():
        seed = tmp_path / "files" / f"state_{name}" / "runs" / "measured" / "private_seed"
        seed.write_text("00" * 32 + "\n")
    found = learned(in_one_process(tmp_path / "files")["result"])
    assert (found == case["learned"]) is not other_seeds


def test_the_record_has_the_promised_keys(record):
    kept = json.loads(engines.to_json(record))
    assert set(kept) == {
        *("backend", "date", "machine", "versions", "quick", "key_bits", "rows", "columns", "clients", "network"),
        *("cases", "ratios", "noise", "aims", "same", "latency", "load_at_end"),
    }
    assert [case["engine"] for case in kept["cases"]] == ["in process", "flare", "flower", "in process"]
    assert kept["ratios"] == {"flare": 1.25, "flower": 1.3}
    assert kept["network"] == "namespaces"
    assert {"nvflare", "flwr"} <= set(kept["versions"])


def test_the_page_says_plainly_which_aim_was_met_and_which_was_missed(record):
    page = engines.to_markdown(record)
    assert "NVIDIA FLARE: the aim is under 1.3 times; it is met at 1.25. Carrying took 14.0 s, 14 %" in page
    assert "Flower: the aim is under 1.2 times; it is **missed** at 1.30." in page
    assert "| NVIDIA FLARE | 1,000,000 | 1,100,000 | 1.100 |" in page
    assert "| training, seconds | 100.0 and 100.0 | 125.0 | 130.0 |" in page
    assert "load of the machine before the runs: 0.5 to 0.5" in page
    for line in page.splitlines():  # every table is whole
        assert not line.startswith("|") or line.endswith("|")


def test_a_machine_that_was_busy_leads_to_no_verdict(record):
    first, *others = record["cases"]
    uneven = engines.to_markdown({**record, "noise": 1.5})
    loaded = engines.to_markdown({**record, "cases": [{**first, "load": 3.0}, *others]})
    assert "the two runs in one process differ 1.50 times, so **nothing can be said** at 1.25" in uneven
    assert "the machine was busy (load 3.0 before the first run), so **nothing can be said** at 1.25" in loaded
    assert "it is met" not in uneven + loaded


def test_the_cost_of_a_longer_way_is_told_per_batch(record):
    latency = record["latency"]
    assert latency["ms_each_way"] == 50
    assert latency["round_trip_ms"] == pytest.approx(100)
    for found in latency["engines"].values():
        assert found["cost_s_per_batch"] == pytest.approx(0.4)
        assert found["round_trips_per_batch"] == pytest.approx(4)
    assert "| Flower | 0.25 | 0.65 | **0.40 s** | 4.0 | 0.5 and 0.5 |" in engines.to_markdown(record)


def test_where_hosts_are_not_permitted_loopback_is_used_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(engines, "no_namespaces", lambda: "network namespaces need root")
    monkeypatch.setattr(engines, "no_delays", lambda: "network namespaces need root")
    found = engines.run(measure=made_up)
    page = engines.to_markdown(found)
    assert found["network"] == "loopback"
    assert "shared this machine's loopback device" in page
    assert "Not measured: network namespaces need root." in page


def test_engines_that_learn_something_else_are_an_error(permitted):
    def differing(engine, size, hosts):
        return made_up(engine, size, hosts, learned=engine)

    with pytest.raises(AssertionError, match="did not learn the same"):
        engines.run(measure=differing)


def test_an_engine_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(engines, "MODULES", {"flower": "no_such_module"})
    with pytest.raises(ConfigError, match=r"Flower is not installed here: .*fedsdg\[flower\]"):
        engines.run(measure=made_up)


def test_carrying_is_what_is_left_of_an_exchange_when_clients_have_worked():
    first, second = CLIENTS
    exchanges = [([first, second], 1.0), ([second], 0.5)]
    work = [{"seconds": [0.25]}, {"seconds": [0.5, 0.125]}]
    assert carrying(exchanges, work, together=True) == pytest.approx(0.5 + 0.375)
    assert carrying(exchanges, work, together=False) == pytest.approx(0.25 + 0.375)


def test_a_batch_counts_with_both_phases_and_loopback_counts_once():
    case = {"phases_s": {"gini": 9.0, "gated": 3.0, "compact": 1.0}, "steps": {"gated": 6, "compact": 2}}
    assert seconds_per_batch(case) == 0.5
    assert wire_bytes("lo", [7, 7]) == 7
    assert wire_bytes("link0", [3, 4]) == 7
    assert "lo" in device_bytes()


def test_the_command_writes_record_and_page(monkeypatch, tmp_path, permitted):
    from typer.testing import CliRunner

    from fedsdg.cli.bench import bench

    handled = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: handled.append(number))
    monkeypatch.setattr(engines, "run", partial(engines.run, measure=made_up))
    done = CliRunner().invoke(
        bench, ["engines", "--quick", "--json", str(tmp_path / "e.json"), "--markdown", str(tmp_path / "e.md")]
    )
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "e.json").read_text())["quick"] is True
    assert "a tiny job" in (tmp_path / "e.md").read_text()
    assert signal.SIGTERM in handled  # who stops a benchmark leaves no sites and no hosts behind
