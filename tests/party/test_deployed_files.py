"""What `fedsdg deploy` prints can be typed as it is, and the party files that it begins find their tables."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs fedsdg[flare]")
pytest.importorskip("flwr", reason="needs fedsdg[flower]")

from typer.testing import CliRunner

from fedsdg.cli.app import app
from fedsdg.deployment import write_party_files
from fedsdg.job import load_job
from fedsdg.party import load_party
from fedsdg.starter import write_starter

PARTIES = ("bank", "phone_company", "web_shop")


@pytest.fixture(scope="module", params=["flare", "flower"])
def printed(request, tmp_path_factory) -> tuple[Path, list[list[str]]]:
    """A folder with spaces in its name, and the commands that were printed, as a shell takes them apart."""
    folder = tmp_path_factory.mktemp("our project") / "with a space"
    write_starter(folder / "job")
    arguments = ["deploy", request.param, str(folder / "job" / "job.toml"), "--out", str(folder / "out here")]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    lines = [line.strip().removeprefix("there: ") for line in done.output.splitlines()]
    return folder, [shlex.split(line) for line in lines if "fedsdg site " in line or " flwr " in line]


def test_every_printed_path_is_one_word_for_a_shell_and_is_there(printed):
    folder, commands = printed
    assert len(commands) >= 4
    for words in commands:
        paths = [word.partition("=")[2] if word.startswith("FLWR_HOME=") else word for word in words if " " in word]
        for path in (path for path in paths if not path.startswith("num-supernodes=")):
            there = Path(path).parent if path.endswith(".pub") else Path(path)  # clients make their keys themselves
            assert there.exists(), words
            assert there.is_relative_to(folder)


def test_a_printed_site_names_its_kit_and_its_party_file(printed):
    _, commands = printed
    sites = [words for words in commands if words[:3] == ["fedsdg", "site", "start"]]
    assert {load_party(Path(words[-1])).name for words in sites} == set(PARTIES)
    assert all(len(words) == 6 and words[4] == "--party" for words in sites)


def test_tables_that_a_job_names_relative_to_itself_are_found_after_everything_was_moved(tmp_path: Path):
    write_starter(tmp_path / "here" / "job")
    job = tmp_path / "here" / "job" / "job.toml"
    written = write_party_files(load_job(job), tmp_path / "here" / "project" / "parties", job)
    for name, path in written.items():
        assert f'table = "../../job/{name}.csv"' in path.read_text()
        assert "Paths are relative" in path.read_text()
    shutil.move(tmp_path / "here", tmp_path / "there")
    for name in PARTIES:
        party = load_party(tmp_path / "there" / "project" / "parties" / f"{name}.toml")
        source = party.rows or party.labels
        assert source.table.resolve() == tmp_path / "there" / "job" / f"{name}.csv"
        assert source.table.is_file()


def test_a_relative_job_file_in_another_folder_gives_the_same_paths(tmp_path: Path, monkeypatch):
    write_starter(tmp_path / "job")
    monkeypatch.chdir(tmp_path)
    job = Path("job") / "job.toml"
    written = write_party_files(load_job(job), Path("project") / "parties", job)
    assert 'table = "../../job/bank.csv"' in written["bank"].read_text()


def test_a_table_that_a_job_names_by_its_whole_path_keeps_it(tmp_path: Path):
    write_starter(tmp_path / "job")
    job, table = tmp_path / "job" / "job.toml", tmp_path / "job" / "web_shop.csv"
    job.write_text(job.read_text().replace('"web_shop.csv"', f'"{table}"'))
    written = write_party_files(load_job(job), tmp_path / "parties", job)
    assert f'table = "{table}"' in written["web_shop"].read_text()
    assert 'table = "../job/phone_company.csv"' in written["phone_company"].read_text()
    without = write_party_files(load_job(job), tmp_path / "others")
    assert f'table = "{table.with_name("phone_company.csv")}"' in without["phone_company"].read_text()


def test_a_table_with_any_name_can_be_read_back(tmp_path: Path):
    write_starter(tmp_path / "job")
    job, named = tmp_path / "job" / "job.toml", "täble \U0001f33b.csv"
    (tmp_path / "job" / "web_shop.csv").rename(tmp_path / "job" / named)
    job.write_text(job.read_text().replace('"web_shop.csv"', f'"{named}"'), encoding="utf-8")
    written = write_party_files(load_job(job), tmp_path / "parties", job)
    assert load_party(written["web_shop"]).rows.table.is_file()
