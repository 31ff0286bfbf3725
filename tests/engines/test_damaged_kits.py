"""Kits that were cut off, edited or swapped on their way: refused in words, before a key or a command is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")
pytest.importorskip("flwr", reason="needs fedsdg[flower]")

from fedsdg.errors import ConfigError
from fedsdg.runtime import flare_kits, flower_kits

NODE = {"kind": "supernode", "name": "clinic", "superlink": "localhost:8000", "port": 9094}
LINK = {"kind": "superlink", "host": "localhost", "port": 8000}
NONSENSE = (
    *(None, True, -1, 0, 1.5, 70_000, 10**400, float("nan"), [], {}, [[1]]),
    *(
        "",
        "-x",
        "a b",
        "a\nb:9",
        "\x00",
        "../up",
        "/etc/passwd",
        "a..b",
        "h:99999",
        "h:²",
        "h:" + "9" * 5000,
        ":80",
        "n" * 5000,
    ),
)
BROKEN = (b"", b"{", b"[]", b"[[1, 2]]", b"null", b"\xff\xfe", b"[" * 100_000)


def kit_of(folder: Path, content: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / flower_kits.KIT_FILE).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(("whole", "field"), [(kit, field) for kit in (NODE, LINK) for field in kit])
def test_no_field_of_a_flower_kit_becomes_a_path_or_a_command_unchecked(whole, field, tmp_path):
    before = sorted(tmp_path.iterdir())
    for value in NONSENSE:
        kit = kit_of(tmp_path / "kit", whole | {field: value})
        for use in (flower_kits.site_command, flower_kits.make_key):
            with pytest.raises(ConfigError, match=str(kit)) as refusal:
                use(kit)
            assert len(str(refusal.value)) < 300 + len(str(kit))
    kit = kit_of(tmp_path / "kit", {name: value for name, value in whole.items() if name != field})
    with pytest.raises(ConfigError, match=f"{field}: .*ask the label owner for the kit again"):
        flower_kits.site_command(kit)
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(["kit", flower_kits.KIT_FILE, *before])


@pytest.mark.parametrize("host", ["localhost", "bank.example.org", "10.0.0.7", "::1", "[::1]", "my_host-2"])
def test_every_way_to_name_a_host_is_understood(host, tmp_path):
    kit = kit_of(tmp_path / "kit", NODE | {"superlink": f"{host}:8000"})
    flower_kits.make_key(kit)
    assert f"{host}:8000" in flower_kits.site_command(kit)
    assert flower_kits.open_deployment(kit_of(tmp_path / "link", LINK | {"host": host})).host == host


@pytest.mark.parametrize("content", BROKEN)
def test_a_flower_kit_that_cannot_be_read_says_what_to_do(content, tmp_path):
    (tmp_path / flower_kits.KIT_FILE).write_bytes(content)
    with pytest.raises(ConfigError, match=r"flower\.json is damaged: .*ask the label owner for the kit again"):
        flower_kits.site_command(tmp_path)


def test_folders_in_place_of_files_are_told(tmp_path):
    kit = kit_of(tmp_path / "node", NODE)
    (kit / "clinic").mkdir()
    with pytest.raises(ConfigError, match="has no key yet"):
        flower_kits.site_command(kit)
    kit = kit_of(tmp_path / "link", LINK)
    (kit / "flower").write_text("")
    with pytest.raises(ConfigError, match=r"Cannot write to .*flower: "):
        flower_kits.site_command(kit)
    (kit / flower_kits.KIT_FILE).unlink()
    (kit / flower_kits.KIT_FILE).mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        flower_kits.site_command(kit)


def flare_kit(folder: Path, role: str = "client", config: bytes | None = None, resources: bytes = b"{}") -> Path:
    for part in ("startup", "local"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    named = json.dumps({"client": {"fqsn": "clinic"}}).encode() if config is None else config
    (folder / "startup" / f"fed_{role}.json").write_bytes(named)
    (folder / "local" / "resources.json").write_bytes(resources)
    return folder


def test_a_whole_flare_kit_names_its_client(tmp_path):
    assert "uid=clinic" in flare_kits.site_command(flare_kit(tmp_path))


@pytest.mark.parametrize("content", [*BROKEN, b"{}", b'{"client": 1}', b'{"client": {}}', b'{"client": {"fqsn": 7}}'])
def test_a_flare_kit_that_names_no_client_is_refused(content, tmp_path):
    with pytest.raises(ConfigError, match=r"fed_client\.json is damaged: .*ask the label owner for the kit again"):
        flare_kits.site_command(flare_kit(tmp_path, config=content))


@pytest.mark.parametrize("name", ["../up", "a b", "", "server", "a\u0000"])
def test_a_flare_kit_of_a_name_that_no_client_has_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match=r"fed_client\.json: client\.fqsn: "):
        flare_kits.site_command(flare_kit(tmp_path, config=json.dumps({"client": {"fqsn": name}}).encode()))


@pytest.mark.parametrize(
    "content",
    [
        *BROKEN,
        b'{"snapshot_persistor": 1}',
        b'{"snapshot_persistor": {"args": {"storage": {"args": {}}}}}',
        b'{"snapshot_persistor": {"args": {"storage": {"args": {}}}}, "components": [{}]}',
        b'{"snapshot_persistor": {"args": {"storage": {"args": {}}}}, "components": [{"id": "job_manager"}]}',
    ],
)
def test_damaged_rules_of_a_flare_site_are_refused_and_stay_as_they_are(content, tmp_path):
    kit = flare_kit(tmp_path, "server", resources=content)
    with pytest.raises(ConfigError, match=r"resources\.json is damaged: .*ask the label owner for the kit again"):
        flare_kits.site_command(kit)
    assert [path.read_bytes() for path in (kit / "local").iterdir()] == [content]
