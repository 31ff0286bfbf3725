"""The folder of a run: each party's secrets with that party only, strict JSON, and nothing of a run that failed."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest
import torch

import fedsdg
from fedsdg import state_files
from fedsdg.api import describe, run_tables
from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.crypto import PrivateKey
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import ConfigError, FedSDGError
from fedsdg.job import RunSettings
from fedsdg.learning.client_files import read_client_files
from fedsdg.prediction import Model
from fedsdg.run_folder import RunFolder
from fedsdg.server.model_files import read_server_files
from fedsdg.simulation import PartyTables, simulate
from fedsdg.state_files import load_state, wide_from_array

TRAINING = TrainingConfig(
    gated_phase=PhaseSettings(steps=6, batch_size=32),
    compact_phase=PhaseSettings(steps=4, batch_size=32),
    validation=ValidationSettings(every=3),
)
MASKED = RunSettings(profile="masked", training=TRAINING)
PLAIN = RunSettings(profile="plain", training=TRAINING)
SEEDS = {name: f"the private seed of {name}".encode().ljust(32, b".") for name in ("server", "left", "right")}


def tables(labels=None) -> PartyTables:
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(100, 4)), rng.normal(size=(100, 3))
    if labels is None:
        labels = np.where(left[:, 0] + right[:, 1] > 0, "yes", "no")
    return PartyTables(labels, {"left": FeatureTable.of(left), "right": FeatureTable.of(right)}, "bank")


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """A masked run with small keys, and its folder."""
    out = tmp_path_factory.mktemp("masked") / "run"
    folder = RunFolder.create(out, SEEDS, MASKED)
    made = []

    def generate(*arguments, **options):
        made.append(original(*arguments, **options))
        return made[-1]

    original = PrivateKey.generate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateKey, "generate", generate)
        simulation = simulate(
            tables(),
            MASKED,
            private_seeds=SEEDS,
            watch=folder.watch(lambda update: None),
            allow_test_keys=True,
            key_bits=512,
            storage=folder.storage,
        )
    folder.finish(simulation, describe(simulation))
    simulation.private_keys = made
    return out, simulation


def files(out: Path) -> list[Path]:
    return [path for path in out.rglob("*") if path.is_file()]


def owner_of(out: Path, path: Path) -> str:
    """Return whose folder a file lies in (the top level is everybody's)."""
    parts = path.relative_to(out).parts
    if parts[0] == "server":
        return "server"
    return parts[1] if parts[0] == "clients" else "everybody"


PARTS = {"model.json", "model_card.md", "source.json", "private_seed"}


def test_every_party_has_a_folder_of_its_own(masked):
    out, simulation = masked
    assert {path.name for path in out.iterdir()} == {
        "selection.json",
        "settings.json",
        "metrics.jsonl",
        "run.log",
        "server",
        "clients",
    }
    assert {path.name for path in (out / "clients").iterdir()} == set(simulation.clients)
    assert {path.name for path in (out / "server").iterdir()} == PARTS | {"model.safetensors", "weights.state"}
    for name in simulation.clients:
        predicts = {"model.safetensors", "share.state"} if name in simulation.result.server.asked else set()
        own = {"selection.json", "gate_path.safetensors"}
        assert {path.name for path in (out / "clients" / name).iterdir()} == PARTS | own | predicts


def test_only_the_owner_can_read_anything(masked):
    out, _ = masked
    for path in [out, *out.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_private_seed_lies_with_its_owner_only(masked):
    out, _ = masked
    for party, seed in SEEDS.items():
        holders = {
            owner_of(out, path)
            for path in files(out)
            if any(form in path.read_bytes() for form in (seed, seed.hex().encode()))
        }
        assert holders == {party}


def test_private_keys_are_nowhere(masked):
    out, simulation = masked
    secrets = [int(number) for key in simulation.private_keys for number in (key.p, key.q)]
    assert len(secrets) == 6
    for path in files(out):
        content = path.read_bytes()
        for number in secrets:
            width = (number.bit_length() + 7) // 8
            forms = (
                str(number).encode(),
                f"{number:x}".encode(),
                number.to_bytes(width),
                number.to_bytes(width, "little"),
            )
            assert not any(form in content for form in forms), path


def test_noisy_weights_and_shares_never_lie_in_one_folder(masked):
    out, simulation = masked
    for name in simulation.result.server.asked:
        noisy = simulation.federation.weights[name].noisy
        share = simulation.channel.roles[name].state.share.share
        for numbers, holder in ((noisy, "server"), (share, name)):
            for number in (int(n) for n in numbers.ravel()):
                forms = (str(number).encode(), number.to_bytes(32, "little", signed=True))
                found = {owner_of(out, p) for p in files(out) if any(form in p.read_bytes() for form in forms)}
                assert found == {holder}


def test_noisy_weights_and_shares_together_are_the_weights_of_a_plain_run(masked, tmp_path):
    out, _ = masked
    run_tables(tables(), PLAIN, out=tmp_path / "plain", private_seeds=SEEDS)
    clear, _ = load_state(tmp_path / "plain" / "server" / "weights.state")
    noisy, _ = load_state(out / "server" / "weights.state")
    assert set(clear) == set(noisy) != set()
    for name, weights in clear.items():
        share, _ = load_state(out / "clients" / name / "share.state")
        both = wide_from_array(noisy[name]) - wide_from_array(share["share"])
        assert both.tolist() == wide_from_array(weights).tolist()


def test_the_record_has_everything_in_strict_json(masked):
    out, simulation = masked
    record = json.loads((out / "selection.json").read_text(), parse_constant=pytest.fail)
    assert list(record)[:9] == [
        "profile",
        "key_bits",
        "backend",
        "clients",
        "metrics",
        "bytes",
        "messages",
        "seconds",
        "versions",
    ]
    assert record["key_bits"] == 512
    assert record["bytes"]["total"] == simulation.traffic.total
    assert record["messages"] == simulation.traffic.messages
    assert "truth" not in record
    for name, client in record["clients"].items():
        assert set(client) >= {"selected", "n_features", "gates", "gini"}
        assert client == json.loads((out / "clients" / name / "selection.json").read_text())


def test_metrics_are_one_object_per_step(masked):
    out, simulation = masked
    lines = [json.loads(line, parse_constant=pytest.fail) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = {phase: [line["loss"] for line in lines if line["phase"] == phase] for phase in ("gated", "compact")}
    assert losses == {phase: list(values) for phase, values in simulation.result.losses.items()}
    assert [line["step"] for line in lines if line["phase"] == "compact"] == [1, 2, 3, 4]


def test_the_settings_can_be_used_again(masked):
    out, _ = masked
    assert RunSettings(**json.loads((out / "settings.json").read_text())) == MASKED


def test_the_parts_of_the_model_load_back(masked):
    out, simulation = masked
    server = read_server_files(out / "server")
    assert server.run_id == simulation.federation.run_id
    assert server.clients == simulation.result.server.asked
    assert list(server.learner.objective.classes) == ["no", "yes"]
    for name, value in server.learner.snapshot().items():
        if not name.startswith("adam/"):
            np.testing.assert_array_equal(simulation.result.server.snapshot()[name], value)
    for name, client in simulation.clients.items():
        saved = read_client_files(out / "clients" / name)
        assert saved.run_id == server.run_id
        assert (saved.part is not None) == (name in server.clients)
        if saved.part is not None:
            assert saved.part.dither_key == client.part().dither_key


def test_a_loaded_model_predicts_the_same_bits(masked):
    out, simulation = masked
    loaded = Model.load(out)
    model = Model(loaded.server, loaded.parts, allow_test_keys=True, key_bits=512)
    some = {name: table.take(np.arange(9)) for name, table in tables().tables.items()}
    assert torch.equal(model.outputs(some), simulation.outputs(some))


def test_numbers_that_json_does_not_know_become_null(masked):
    _, simulation = masked
    result = describe(simulation)
    broken = type(result)(**{**result.__dict__, "metrics": {"test": float("nan"), "validation": float("-inf")}})
    record = json.loads(broken.to_json(), parse_constant=pytest.fail)
    assert record["metrics"] == {"test": None, "validation": None}


class Stop(Exception):
    """Raised by a watcher."""


@pytest.mark.parametrize("problem", [Stop, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("moment", [1, 4, 8])
def test_an_interrupted_run_leaves_nothing_behind(problem, moment, tmp_path):
    seen = []

    def watch(update):
        seen.append(update)
        assert (tmp_path / "runs" / "one.partial").is_dir()
        if len(seen) == moment:
            raise problem

    with pytest.raises(problem):
        run_tables(tables(), PLAIN, out=tmp_path / "runs" / "one", watch=watch)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["server/.*model.json", "clients/left/.*model.json", "partial/.*selection.json"])
def test_a_full_disk_is_one_clear_error_and_leaves_nothing_behind(moment, tmp_path, monkeypatch):
    """Without a checkpoint there is nothing to go on from; with one, see tests/reliability."""
    original = os.fsync

    def full(descriptor):
        if re.search(moment, os.readlink(f"/proc/self/fd/{descriptor}")):
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    monkeypatch.setattr(state_files.os, "fsync", full)
    with pytest.raises(FedSDGError, match=r"Cannot write .*: No space left on device\."):
        run_tables(tables(), PLAIN, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_fault_after_the_training_leaves_nothing_behind(tmp_path, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("fedsdg.api.describe", broken)
    with pytest.raises(ZeroDivisionError):
        run_tables(tables(), PLAIN, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_folders_that_were_there_before_stay(tmp_path):
    (tmp_path / "runs").mkdir()

    def watch(update):
        raise Stop

    with pytest.raises(Stop):
        run_tables(tables(), PLAIN, out=tmp_path / "runs" / "deep" / "one", watch=watch)
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]


def test_what_another_run_is_writing_is_never_touched(tmp_path):
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "metrics.jsonl").write_text("theirs")
    with pytest.raises(ConfigError, match=r"another run is writing it, or one was interrupted\. Go on with"):
        run_tables(tables(), PLAIN, out=tmp_path / "run")
    assert (tmp_path / "run.partial" / "metrics.jsonl").read_text() == "theirs"


def test_a_finished_run_is_never_overwritten(tmp_path):
    run_tables(tables(), PLAIN, out=tmp_path / "run")
    before = (tmp_path / "run" / "selection.json").read_bytes()
    with pytest.raises(ConfigError, match="exists and is not empty"):
        run_tables(tables(), PLAIN, out=tmp_path / "run")
    assert (tmp_path / "run" / "selection.json").read_bytes() == before
    assert not (tmp_path / "run.partial").exists()


def test_a_run_that_appears_meanwhile_is_not_overwritten(tmp_path):
    def watch(update):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / "precious").write_text("theirs")

    with pytest.raises(ConfigError, match="Cannot write to"):
        run_tables(tables(), PLAIN, out=tmp_path / "run", watch=watch)
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "precious"]


def test_a_link_to_an_empty_folder_can_be_used(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    run_tables(tables(), PLAIN, out=tmp_path / "run")
    assert (tmp_path / "disk" / "selection.json").is_file()


def test_relative_folders_mean_the_folder_of_the_start(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run_tables(tables(), PLAIN, out="run", watch=lambda update: monkeypatch.chdir(tmp_path / "elsewhere"))
    assert (tmp_path / "run" / "selection.json").is_file()


def test_mount_points_are_refused_before_any_work():
    with pytest.raises(ConfigError, match=r"exists and is not empty|is a mount point"):
        RunFolder.refuse_unusable(Path("/proc"))


def test_a_run_without_a_folder_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_tables(tables(), PLAIN).n_selected >= 1
    assert list(tmp_path.iterdir()) == []


def test_truth_is_recorded_where_it_is_known(tmp_path):
    truth = {"left": frozenset({"x0"}), "right": frozenset({"x1"})}
    result = run_tables(tables(), PLAIN, out=tmp_path / "run", truth=truth)
    record = json.loads((tmp_path / "run" / "selection.json").read_text())
    assert record["truth"] == result.truth
    chosen = {(name, column) for name, columns in result.selected.items() for column in columns}
    hits = len(chosen & {("left", "x0"), ("right", "x1")})
    assert record["truth"]["precision"] == hits / len(chosen)
    assert record["truth"]["recall"] == hits / 2


@pytest.mark.parametrize("labels", [np.arange(100) % 3, np.linspace(0, 1, 100), np.arange(100) % 2 == 0])
def test_labels_of_every_kind_can_be_recorded(labels, tmp_path):
    run_tables(tables(labels), PLAIN, out=tmp_path / "run")
    model = json.loads((tmp_path / "run" / "server" / "model.json").read_text(), parse_constant=pytest.fail)
    classes = sorted(set(labels.tolist())) if len(np.unique(labels)) < 50 else None
    assert model["classes"] == classes


def test_an_encrypted_run_with_real_keys_is_the_default(tmp_path):
    job = RunSettings(training=TRAINING.with_changes(retrain=False))
    result = fedsdg.run_tables(tables(), job, out=tmp_path / "run")
    assert (result.profile, result.key_bits) == ("masked", 2048)
    assert result.bytes["total"] > 100_000
    assert (tmp_path / "run" / "clients" / "left" / "share.state").is_file()
