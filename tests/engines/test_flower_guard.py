"""What a guarded SuperLink and SuperNode let through, and what kits hold; no process is started."""

from __future__ import annotations

import asyncio
import io
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs fedsdg[flower]")

import httpx
from flwr.cli.build import build_fab_from_disk
from flwr.superlink import extensions
from flwr.superlink.main import create_app
from flwr.superlink.servicer.fleet import fleet_handlers

from fedsdg.errors import ConfigError
from fedsdg.runtime import flower_guard, flower_kits
from fedsdg.runtime.flower import Plan
from fedsdg.runtime.flower_guard import COMPONENTS, brought

pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
OUTSIDE, HERE = "192.0.2.7", "127.0.0.1"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return flower_kits.write_app(tmp_path / "app", ("a", "b"), {"kind": "train"}, listen="0.0.0.0:1", dial="h:1")


def test_an_app_without_code_passes(app: Path):
    assert brought(build_fab_from_disk(app)) is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text.replace(COMPONENTS["clientapp"], "os:system"), "names other objects"),
        (lambda text: text.replace("dependencies = []", 'dependencies = ["anything"]'), "asks for packages"),
    ],
)
def test_settings_that_would_run_something_else_are_refused(app: Path, change, complaint: str):
    settings = app / "pyproject.toml"
    changed = change(settings.read_text())
    assert changed != settings.read_text()
    settings.write_text(changed)
    (app / "os.py").touch()
    packed = build_fab_from_disk(app)
    assert "brings files" in brought(packed)
    assert complaint in brought(without(packed, "os.py"))


def without(packed: bytes, name: str) -> bytes:
    """The same app without one of its files."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as source, zipfile.ZipFile(out, "w") as sink:
        for member in source.namelist():
            if member != name:
                sink.writestr(member, source.read(member))
    return out.getvalue()


@pytest.mark.parametrize("damaged", [b"", b"no zip", b"PK\x05\x06" + bytes(18)])
def test_an_app_that_cannot_be_read_is_refused(damaged: bytes):
    assert brought(damaged) is not None


@pytest.fixture
def superlink(monkeypatch: pytest.MonkeyPatch):
    """Flower's own application, guarded."""
    monkeypatch.setattr(extensions, "get_middleware", extensions.get_middleware)
    monkeypatch.setattr(fleet_handlers, "activate_node", fleet_handlers.activate_node)
    flower_guard._guard_superlink()
    return create_app()


def asked(superlink, path: str, peer: str, host: str = HERE) -> int:
    async def ask() -> int:
        transport = httpx.ASGITransport(superlink, client=(peer, 4000), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return (await client.post(path)).status_code

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "path", ["/v1/control/start-run", "/v1/control/list-runs", "/v1/runtime/acquire-task", "/docs"]
)
def test_from_another_machine_nobody_starts_or_watches_runs(superlink, path: str):
    assert asked(superlink, path, OUTSIDE) == 403
    assert asked(superlink, path, HERE) != 403
    assert asked(superlink, path, OUTSIDE, host=OUTSIDE) != 403  # this machine, by its other address


def test_from_another_machine_a_node_is_heard_and_must_show_its_key(superlink):
    assert asked(superlink, "/v1/fleet/activate-node", OUTSIDE) not in (403, 404)
    for path in ("/v1/fleet/../control/start-run", "/v1/fleet/%2e%2e/control/start-run", "//v1/control/start-run"):
        assert asked(superlink, path, OUTSIDE) in (403, 404)


def test_a_key_is_made_once_by_the_client_and_a_kit_may_be_moved(tmp_path: Path):
    deployment = flower_kits.make_deployment(tmp_path / "link", "localhost", 8000)
    kit = flower_kits.make_node_kit(tmp_path / "kit", "clinic", deployment)
    with pytest.raises(ConfigError, match="has no key yet: make it here, with `fedsdg site key"):
        flower_kits.site_command(kit)
    moved = kit.rename(tmp_path / "moved")
    assert flower_kits.make_key(moved) == moved / "clinic.pub"
    with pytest.raises(ConfigError, match="holds a key already"):
        flower_kits.make_key(moved)
    command = flower_kits.site_command(moved)
    assert str(moved / "ca.pem") in command
    assert "localhost:8000" in command
    with pytest.raises(ConfigError, match="is the kit of a superlink; this is for a supernode"):
        flower_kits.make_key(tmp_path / "link")
    with pytest.raises(ConfigError, match="is no kit for Flower"):
        flower_kits.site_command(tmp_path)


def test_words_of_a_job_can_be_changed_and_tables_arrive_as_they_were(tmp_path: Path):
    settings = {"kind": "train", "run": "first", "settings": {"sigma": 64, "sizes": [1, 2]}}
    app = flower_kits.write_app(tmp_path / "app", ("b", "a"), settings, listen="0.0.0.0:1", dial="h:1")
    config = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    plan = Plan.of({**config, "kind": "resume"})
    assert plan.settings == {**settings, "kind": "resume"}
    assert plan.clients == ("a", "b")
    with pytest.raises(ConfigError, match="the name 'listen' is taken"):
        flower_kits.write_app(tmp_path / "other", ("a",), {"listen": "x"}, listen="0.0.0.0:1", dial="h:1")
