"""`fedsdg doctor --kit` at a site: the engine that the kit is for, its key, its certificate and its ports."""

from __future__ import annotations

import importlib
import json
import socket
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")
pytest.importorskip("flwr", reason="needs fedsdg[flower]")

from sites import free_port
from typer.testing import CliRunner

from fedsdg.cli.app import app
from fedsdg.deployment import engine_module
from fedsdg.diagnosis import Finding
from fedsdg.errors import ConfigError
from fedsdg.runtime import flare_kits, flower_kits
from fedsdg.site_checks import examine_site


def found(kit: Path) -> dict[str, Finding]:
    return {finding.subject: finding for finding in examine_site(None, kit) if finding.subject != "engines"}


def verdicts(kit: Path) -> dict[str, str]:
    return {subject: finding.verdict for subject, finding in found(kit).items()}


@pytest.fixture(scope="module")
def flare_kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flare_kits.provision(tmp_path_factory.mktemp("kits"), "p", "localhost", ("a",), port=free_port()).server


@pytest.fixture
def flower_kit(tmp_path: Path) -> Path:
    stream = f"localhost:{free_port()}"
    return flower_kits.make_deployment(tmp_path / "link", "localhost", free_port(), stream=stream).folder


def test_the_doctor_knows_flares_kits(flare_kit: Path):
    assert verdicts(flare_kit) == {"engine": "ok", "certificate": "ok", "port": "ok"}


def test_the_doctor_knows_flowers_kits(flower_kit: Path, tmp_path: Path):
    deployment = flower_kits.open_deployment(flower_kit)
    kit = flower_kits.make_node_kit(tmp_path / "kit", "clinic", deployment, stream=f"localhost:{free_port()}")
    ports = {"port": "ok", "stream port": "ok"}
    assert verdicts(flower_kit) == {"engine": "ok", "certificate": "ok", **ports}
    flower_kits.make_simulation(tmp_path / "trial", free_port(), stream=f"localhost:{free_port()}")
    assert verdicts(tmp_path / "trial") == {"engine": "ok", **ports}
    nobody_listens = {"port": "note", "stream port": "note"}
    assert verdicts(kit) == {"engine": "ok", "key": "broken", "certificate": "ok", **nobody_listens}
    flower_kits.make_key(kit)
    assert verdicts(kit)["key"] == "ok"
    (kit / flower_kits.KIT_FILE).write_text("{}")
    assert verdicts(kit) == {"engine": "ok", "kit": "broken"}


def test_the_doctor_says_when_the_streams_port_is_taken_at_the_label_owner(flower_kit: Path):
    port = int(json.loads((flower_kit / flower_kits.KIT_FILE).read_text())["stream"].rpartition(":")[2])
    with socket.create_server(("", port)):
        taken = found(flower_kit)
    assert taken["port"].verdict == "ok"
    assert taken["stream port"].verdict == "note"
    assert f"{port} is taken" in taken["stream port"].text


def test_the_doctor_says_whether_a_client_reaches_the_stream(flower_kit: Path, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = f"127.0.0.1:{listener.getsockname()[1]}"
        deployment = flower_kits.open_deployment(flower_kit)
        kit = flower_kits.make_node_kit(tmp_path / "kit", "clinic", deployment, stream=stream)
        assert found(kit)["stream port"] == Finding("stream port", "ok", f"{stream} can be reached")
    assert found(kit)["stream port"].verdict == "note"
    assert "open only while a job runs" in found(kit)["stream port"].text


@pytest.mark.parametrize("stream", [None, "", "localhost", "localhost:99999"])
def test_a_kit_that_names_no_usable_stream_is_worth_a_remark(flower_kit: Path, stream: str | None):
    file = flower_kit / flower_kits.KIT_FILE
    content = json.loads(file.read_text())
    content.pop("stream")
    file.write_text(json.dumps(content if stream is None else {**content, "stream": stream}))
    assert verdicts(flower_kit)["stream port"] == "note"


@pytest.fixture(params=[(ModuleNotFoundError, "is not installed here"), (ImportError, "cannot be used")])
def without(request, monkeypatch):
    """Take a package away, or break it."""
    error, told = request.param
    load = importlib.import_module

    def take(package: str) -> str:
        def missing(name: str, *more: object):
            if name.startswith("fedsdg.runtime.fl"):
                raise error("gone", name=package)
            return load(name, *more)

        monkeypatch.setattr("fedsdg.deployment.importlib.import_module", missing)
        return told

    return take


@pytest.mark.parametrize(("engine", "package"), [("flare", "nvflare"), ("flower", "flwr")])
def test_a_kit_without_its_engine_is_broken_and_the_doctor_says_what_to_install(request, without, engine, package):
    kit = request.getfixturevalue(f"{engine}_kit")
    told = without(package)
    engine_found = found(kit)["engine"]
    assert engine_found.verdict == "broken"
    assert told in engine_found.text
    assert f"({package})" in engine_found.text
    assert f'"fedsdg[{engine}]"' in engine_found.text
    done = CliRunner().invoke(app, ["doctor", "--kit", str(kit)])
    assert done.exit_code == 1
    assert "FAIL  engine" in done.output
    with pytest.raises(ConfigError, match=told):
        engine_module(f"fedsdg.runtime.{engine}_kits", engine)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        "[]",
        '{"kind": "planet", "host": "localhost", "port": 8000}',
        '{"kind": "supernode", "name": "../../etc/passwd", "superlink": "localhost:1", "port": 1}',
        '{"kind": "supernode", "name": "clinic", "superlink": "localhost:\u00b2", "port": 1}',
        '{"kind": "superlink", "host": 7, "port": "8000"}',
    ],
)
def test_a_damaged_kit_is_called_broken_and_the_doctor_goes_on(content: str, tmp_path: Path):
    (tmp_path / "flower.json").write_text(content)
    finding = found(tmp_path)["kit"]
    assert finding.verdict == "broken"
    assert "ask the label owner for the kit again" in finding.text


@pytest.mark.parametrize("target", ["localhost:\u00b2", "localhost:" + "9" * 5000, "no port", {}])
def test_an_address_without_a_port_is_a_remark(target, tmp_path: Path):
    (tmp_path / "startup").mkdir()
    file = tmp_path / "startup" / "fed_server.json"
    file.write_text(json.dumps({"servers": [{"service": {"target": target}}]}))
    assert found(tmp_path)["port"].verdict == "note"
    file.write_text("[" * 100_000)
    assert found(tmp_path)["kit"].verdict == "broken"


def test_names_that_no_system_takes_are_told(tmp_path: Path):
    (tmp_path / "party.toml").write_text(
        f'[party]\nname = "a"\nfolder = "{"x" * 300}"\n\n[rows]\ntable = "{"y" * 300}.csv"\nid = "who"\n\n[policy]\n'
    )
    findings = {finding.subject: finding for finding in examine_site(tmp_path / "party.toml", None)}
    assert (findings["folder"].verdict, findings["rows"].verdict) == ("broken", "broken")
