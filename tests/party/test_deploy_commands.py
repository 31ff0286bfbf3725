"""`fedsdg deploy flare` and `fedsdg site submit`: what is written and what is done, without any engine running."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")

from typer.testing import CliRunner

from fedsdg.cli import deploy as commands
from fedsdg.cli.app import app
from fedsdg.client.policy import Policy
from fedsdg.deployment import rewritten_job
from fedsdg.errors import ConfigError, PeerError, PeerLost
from fedsdg.messages.agreement import job_hash
from fedsdg.party import load_party
from fedsdg.party_server import canonical_job
from fedsdg.runtime.flare_jobs import ABORTED, COMPLETED, fetch_result, wait_for_clients, write_job
from fedsdg.runtime.serving import Patience
from fedsdg.runtime.site import failure_kept
from fedsdg.starter import write_starter


def invoke(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("deployed")
    write_starter(folder / "job")
    return folder, invoke(
        "deploy", "flare", folder / "job" / "job.toml", "--out", folder / "project", "--wait-silence", 900
    )


def test_waiting_times_are_said_when_a_job_is_deployed_and_flare_is_not_less_patient(deployed):
    config = deployed[0] / "project" / "job" / "server" / "config"
    brought = json.loads((config / "fedsdg.json").read_text())
    assert Patience(**brought["patience"]) == Patience(silence=900)
    assert json.loads((config / "config_fed_server.json").read_text())["dead_client_grace_period"] == 900


def test_the_hash_of_each_kind_of_job_is_printed_so_that_clients_can_approve_them(deployed):
    folder, printed = deployed
    brought = json.loads((folder / "project" / "job" / "server" / "config" / "fedsdg.json").read_text())["settings"]
    for kind in ("train", "resume", "predict"):
        text = canonical_job({**brought, "kind": kind, "clients": ["phone_company", "web_shop"]})
        assert f"{kind}: {job_hash(text)}" in printed.output


def test_the_begun_party_files_can_be_read_as_they_are(deployed):
    for name in ("bank", "phone_company", "web_shop"):
        party = load_party(deployed[0] / "project" / "parties" / f"{name}.toml")
        assert party.name == name
        assert party.policy.columns == "any"


@pytest.mark.parametrize("option", ["--wait-start", "--wait-silence", "--wait-answer"])
def test_a_waiting_time_that_is_none_is_refused_before_anything_is_made(deployed, option, tmp_path):
    result = invoke("deploy", "flare", deployed[0] / "job" / "job.toml", "--out", tmp_path / "new", option, 0)
    assert isinstance(result.exception, ConfigError)
    assert not (tmp_path / "new").exists()


class Engine:
    """Stands for `flare_jobs`: jobs end as they were told to."""

    COMPLETED, ABORTED = COMPLETED, ABORTED

    def __init__(self, *ends: Exception | bytes, status: str = "FINISHED:EXECUTION_EXCEPTION") -> None:
        self.ends, self.status = list(ends), status
        self.kinds: list[str] = []
        self.waited: list[tuple[float, bool]] = []

    @contextmanager
    def admin_session(self, kit: Path) -> Iterator[None]:
        yield None

    def wait_for_clients(self, session: None, clients: list[str], timeout: float, anew: bool) -> None:
        self.waited.append((timeout, anew))

    def submit(self, session: None, job: Path) -> str:
        self.kinds.append(json.loads((job / "server" / "config" / "fedsdg.json").read_text())["settings"]["kind"])
        return f"job-{len(self.kinds)}"

    def watch(self, session: None, number: str, seen) -> str:
        seen("RUNNING")
        return COMPLETED if isinstance(self.ends[0], bytes) else self.status

    def fetch_result(self, session: None, number: str, place: Path) -> bytes:
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    job = write_job(tmp_path / "job", ("a", "b"), {"kind": "train", "run": "first", "settings": {}})

    def run(engine: Engine, *more: object):
        monkeypatch.setattr(commands, "engine_module", lambda name, extra: engine)
        return invoke("site", "submit", tmp_path, job, *more)

    return run


LOST = PeerLost("client 'b' has given no sign of life")


def test_a_lost_client_ends_the_submission_unless_its_return_is_to_be_waited_for(submit):
    engine = Engine(LOST)
    assert submit(engine).exception is LOST
    assert engine.kinds == ["train"]


def test_a_run_goes_on_by_itself_when_a_lost_client_is_back(submit):
    engine = Engine(LOST, LOST, b"the result")
    result = submit(engine, "--wait-for-return", 600)
    assert (result.exit_code, result.stdout) == (0, "the result\n")
    assert engine.kinds == ["train", "resume", "resume"]
    assert engine.waited == [(60, False), (600, True), (600, True)]


def test_a_refusal_is_not_tried_again(submit):
    refusal = PeerError("client 'b' refused the job")
    engine = Engine(refusal)
    assert submit(engine, "--wait-for-return", 600).exception is refusal
    assert engine.kinds == ["train"]


def test_a_job_that_somebody_stopped_does_not_go_on_by_itself(submit):
    engine = Engine(LOST, status=ABORTED)
    assert type(submit(engine, "--wait-for-return", 600).exception) is PeerError
    assert engine.kinds == ["train"]


def test_a_prediction_is_not_resumed(submit):
    engine = Engine(LOST)
    assert submit(engine, "--kind", "predict", "--wait-for-return", 600).exception is LOST


def test_a_client_that_dies_every_time_is_given_up(submit):
    engine = Engine(*[LOST] * (commands.RETURNS + 1))
    assert submit(engine, "--wait-for-return", 600).exception is LOST
    assert engine.kinds == ["train"] + ["resume"] * commands.RETURNS


class Listing:
    """A session at a server that lists its clients with their last heartbeats, one list after the other."""

    def __init__(self, *lists: dict[str, float]) -> None:
        self.lists = list(lists)

    def get_connected_client_list(self) -> list[SimpleNamespace]:
        now = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        return [SimpleNamespace(name=name, last_connect_time=time) for name, time in now.items()]


def test_a_site_that_is_listed_and_dead_is_not_taken_for_one_that_is_back(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    still = {"a": 10.0, "b": 10.0}
    wait_for_clients(Listing(still), ("a", "b"), 0)
    with pytest.raises(PeerError, match="not connected after 0 seconds: b"):
        wait_for_clients(Listing(still, {"a": 20.0, "b": 10.0}), ("a", "b"), 0, anew=True)
    wait_for_clients(Listing(still, {"a": 20.0}, {"a": 20.0, "b": 31.0}), ("a", "b"), 60, anew=True)


@pytest.mark.parametrize(
    "meta", ["", "[]", "{}", "[" * 100_000, '{"mandatory_clients": 3}', '{"mandatory_clients": "shop"}']
)
def test_a_damaged_job_folder_is_told_before_anybody_is_waited_for(meta: str, tmp_path: Path):
    (tmp_path / "meta.json").write_text(meta)
    result = invoke("site", "submit", tmp_path, tmp_path)
    assert isinstance(result.exception, ConfigError), result.output
    assert "is no job folder" in str(result.exception)


@pytest.mark.parametrize("content", ["", "[]", '{"settings": 3}', '{"settings": null}', "[" * 100_000])
def test_damaged_settings_of_a_job_are_told(content: str, tmp_path: Path):
    place = tmp_path / "job" / "server" / "config"
    place.mkdir(parents=True)
    (place / "fedsdg.json").write_text(content)
    with pytest.raises(ConfigError, match="no job folder of fedsdg"):
        rewritten_job(tmp_path / "job", tmp_path / "copy", {"kind": "resume"})


def test_what_is_no_job_folder_is_told(tmp_path: Path):
    result = invoke("site", "submit", tmp_path, tmp_path / "nothing")
    assert isinstance(result.exception, ConfigError)


@pytest.mark.parametrize("error", [LOST, PeerError("client 'b' refused")])
def test_whoever_submits_can_tell_a_lost_client_from_a_refusal(error, tmp_path):
    class Session:
        def download_job_result(self, job_id: str, folder: str) -> str:
            return str(tmp_path)

    with pytest.raises(PeerError), failure_kept(tmp_path / "workspace"):
        raise error
    with pytest.raises(type(error), match=f"job 7 failed: {error}") as caught:
        fetch_result(Session(), "7", tmp_path)
    assert type(caught.value) is type(error)


def test_a_policy_names_columns_that_are_not_listed():
    assert Policy().forbidden_columns(["a", "b"]) == ()
    assert Policy(columns=("a",)).forbidden_columns(["a", "b", "c"]) == ("b", "c")
