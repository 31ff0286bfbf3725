"""Job files are checked key by key: every complaint says which key, what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsdg import Job, load_job
from fedsdg.config import COMPACT_PHASE, TrainingConfig
from fedsdg.errors import ConfigError
from fedsdg.job import ClientSource, LabelSource, RunSettings
from fedsdg.party_source import ColumnPin, EncodingSettings

SERVER = '[server]\nname = "bank"\ntable = "s.csv"\nid = "i"\ntarget = "t"\n'
CLIENT = '[clients.shop]\ntable = "c.csv"\nid = "i"\n'
BASE = SERVER + CLIENT
DATABASE = '[clients.shop]\nid = "i"\ndatabase = "sqlite:///data/c.db"\n'
QUERY = 'query = "SELECT * FROM people"\n'


def load(tmp_path: Path, text: str) -> Job:
    path = tmp_path / "job.toml"
    path.write_text(text, encoding="utf-8")
    return load_job(path)


WRONG = {
    "an unknown section": ("[jobs]\n" + BASE, r"unknown section \[jobs\].*did you mean 'job'"),
    "a setting outside any section": ('profile = "plain"\n' + BASE, "'profile' stands outside any section"),
    "no server": (CLIENT, r"\[server\] is missing"),
    "an empty file": ("", r"\[server\] is missing"),
    "a server that is no section": ("server = 3\n" + CLIENT, r"server: a section is wanted here: write \[server\]"),
    "clients that are no sections": ("clients = 3\n" + SERVER, r"clients: .*write \[clients.NAME\]"),
    "a client that is no section": (SERVER + "[clients]\nshop = 3\n", r"clients.shop: .*write \[clients.shop\]"),
    "a job that is no section": ("job = 1\n" + BASE, r"job: a section is wanted here"),
    "no client": (SERVER, r"no client takes part: add a section \[clients.NAME\], or server.columns"),
    "an unknown job key": ("[job]\nprofil = 'plain'\n" + BASE, r"job.profil: unknown setting.*did you mean 'profile'"),
    "a section hidden in job": ("[job]\ntraining = 3\n" + BASE, "job.training: unknown setting"),
    "an unknown server key": (
        SERVER + "rows = 3\n" + CLIENT,
        "server.rows: unknown setting; there are table, database",
    ),
    "an unknown client key": (BASE + "tabel = 'x'\n", r"clients.shop.tabel: unknown.*did you mean 'table'"),
    "an unknown training key": (BASE + "[training]\nstep = 3\n", "training.step: unknown setting"),
    "an unknown phase key": (
        BASE + "[training.gated_phase]\nstep = 3\n",
        r"training.gated_phase.step: unknown.*'steps'",
    ),
    "a missing target": (
        '[server]\ntable = "s.csv"\nid = "i"\n' + CLIENT,
        r"server.target is missing; add it to the section \[server\]",
    ),
    "a missing id": (
        SERVER + '[clients.shop]\ntable = "c.csv"\n',
        'clients.shop.id is missing; .* job.ids = "aligned"',
    ),
    "a missing id of the label owner": (
        BASE.replace('table = "s.csv"\nid = "i"', 'table = "s.csv"'),
        r"server.id is missing; add it to the section \[server\]",
    ),
    "two sources": (
        BASE + 'database = "sqlite:///c.db"\nquery = "SELECT 1"\n',
        "clients.shop: table and database: the rows come from one of the two",
    ),
    "a query beside a table": (BASE + 'query = "SELECT 1"\n', "clients.shop: table and database"),
    "a database without a query": (SERVER + DATABASE, "clients.shop: query is missing: say which rows"),
    "a query without a database": (
        SERVER + '[clients.shop]\nid = "i"\nquery = "SELECT 1"\n',
        "clients.shop: database is missing",
    ),
    "a database that is no text": (
        SERVER + '[clients.shop]\nid = "i"\nquery = "SELECT 1"\ndatabase = ["sqlite://u:swordfish@h"]\n',
        "clients.shop.database: what stands there cannot be used",
    ),
    "protected labels without a place for their key": (
        '[job]\nlabel_epsilon = 1.0\n[server]\nid = "i"\ntarget = "t"\n' + CLIENT,
        "server.label_key is missing: job.label_epsilon needs a lasting key",
    ),
    "an unknown way to match rows": ('[job]\nids = "public"\n' + BASE, "job.ids: .*'private' or 'aligned'"),
    "negative checkpoints": ("[job]\ncheckpoint_every = -1\n" + BASE, "job.checkpoint_every: -1 cannot be used"),
    "a schema that is no section": (BASE + "schema = 3\n", r"clients.shop.schema: .*write \[clients.shop.schema\]"),
    "an unknown kind": (BASE + '[clients.shop.schema]\nx = "colour"\n', "clients.shop.schema.x.kind: .*'category'"),
    "a kind that is no text": (BASE + "[clients.shop.schema]\nx = 3\n", "clients.shop.schema.x: a section is wanted"),
    "a pin without a kind": (BASE + "[clients.shop.schema]\nx = {}\n", "clients.shop.schema.x.kind is missing"),
    "an unknown part of a pin": (
        BASE + '[clients.shop.schema]\nx = { kind = "ordinal", level = ["a"] }\n',
        "clients.shop.schema.x.level: unknown setting.*did you mean 'levels'",
    ),
    "levels of a category": (
        BASE + '[clients.shop.schema]\nx = { kind = "category", levels = ["a", "b"] }\n',
        'clients.shop.schema.x: levels: they belong to kind = "ordinal"',
    ),
    "one level": (
        BASE + '[clients.shop.schema]\nx = { kind = "ordinal", levels = ["a"] }\n',
        "clients.shop.schema.x: levels: list at least two",
    ),
    "a level twice": (
        BASE + '[clients.shop.schema]\nx = { kind = "ordinal", levels = ["a", "a"] }\n',
        "levels: list at least two, each once",
    ),
    "a format of a number": (
        BASE + '[clients.shop.schema]\nx = { kind = "number", format = "%d" }\n',
        'format: it belongs to kind = "date"',
    ),
    "a pinned id": (BASE + '[clients.shop.schema]\ni = "number"\n', "clients.shop: schema: 'i' is the id column"),
    "a pinned target": (
        SERVER + '[server.schema]\nt = "number"\n' + CLIENT,
        "server: schema: 't' is the target column; its kind cannot be chosen",
    ),
    "an unknown encoding": (BASE + "[clients.shop.encoding]\nword = 3\n", "clients.shop.encoding.word: .*'words'"),
    "too few levels": (BASE + "[clients.shop.encoding]\nlevels = 1\n", "clients.shop.encoding.levels: 1 cannot be"),
    "a number as text": (BASE + '[training.gated_phase]\nsteps = "10"\n', 'training.gated_phase.steps: "10" cannot'),
    "a fraction of a step": (BASE + "[training.gated_phase]\nsteps = 1.5\n", "steps: 1.5 cannot be used.*integer"),
    "negative steps": (BASE + "[training.gated_phase]\nsteps = -1\n", "steps: -1 cannot be used.*equal to 1"),
    "a truth as number": ("[job]\nsigma = true\n" + BASE, "job.sigma: true cannot be used"),
    "a date as number": ("[job]\ntest_fraction = 2020-01-01\n" + BASE, "job.test_fraction: a date or time"),
    "an infinite number": ("[job]\nlabel_epsilon = inf\n" + BASE, "job.label_epsilon: inf is no usable number"),
    "not a number": (BASE + "[training.gated_phase]\nlearning_rate = nan\n", "learning_rate: nan is no usable number"),
    "text as a path": (SERVER + '[clients.shop]\ntable = 3\nid = "i"\n', "clients.shop.table: 3 cannot be used"),
    "an unknown profile": ('[job]\nprofile = "secret"\n' + BASE, "job.profile: .*'masked' or 'plain'"),
    "a small key": ("[job]\nkey_bits = 1024\n" + BASE, "key_bits: 2048 or 3072, not 1024"),
    "a small sigma": ("[job]\nsigma = 10\n" + BASE, "job.sigma: 10 cannot be used.*equal to 40"),
    "no positive epsilon": ("[job]\nlabel_epsilon = 0\n" + BASE, "job.label_epsilon: 0 cannot be used.*greater than 0"),
    "a negative seed": ("[job]\nseed = -1\n" + BASE, "job.seed: -1 cannot be used"),
    "two seeds": ("[job]\nseed = 1\n" + BASE + "[training]\nseed = 1\n", "job.seed and training.seed are the same"),
    "an unknown task": (BASE + '[training]\ntask = "guess"\n', "training.task: .*'auto', 'binary'"),
    "a phase that is no section": (BASE + "[training]\ngated_phase = 3\n", r"write \[training.gated_phase\]"),
    "no hidden units": (BASE + "[training.gated_phase]\nhidden = [0]\n", "training.gated_phase: hidden and top_hidden"),
    "a negative penalty": (BASE + "[training]\npenalty = -3\n", "training.penalty: strength must be"),
    "too wide a layer": (
        BASE + "[training.gated_phase]\nembedding = 4096\n[training.fixed_point]\nweight_range_bits = 8\n",
        "training: fixed_point: embedding 4096.*use a smaller embedding",
    ),
    "a path as name": (SERVER + CLIENT.replace("shop", '"../shop"'), "clients: '../shop' cannot be a party's name"),
    "an empty name": (SERVER + CLIENT.replace("shop", '""'), "clients: '' cannot be a party's name"),
    "a hidden folder as name": (SERVER + CLIENT.replace("shop", '".shop"'), "cannot be a party's name"),
    "an option as name": (SERVER + CLIENT.replace("shop", '"-shop"'), "no - in front"),
    "a name with a line break": (SERVER + CLIENT.replace("shop", '"a\\nb"'), "cannot be a party's name"),
    "a client called server": (SERVER + CLIENT.replace("shop", "server"), "a client cannot be called 'server'"),
    "a client with the owner's name": (SERVER + CLIENT.replace("shop", "bank"), "the label owner has that name"),
    "names that differ in case": (BASE + CLIENT.replace("shop", "Shop"), "'shop' and 'Shop' differ in case only"),
    "a path as the owner's name": (BASE.replace("bank", "../bank"), "server.name: '../bank' cannot be"),
    "an owner with columns called server": (
        BASE.replace("bank", "server").replace('target = "t"\n', 'target = "t"\ncolumns = "all"\n'),
        "server.name: with server.columns .* needs a name other than 'server'",
    ),
    "labels in the id column": (BASE.replace('target = "t"', 'target = "i"'), "id and target are both 'i'"),
    "the target as a feature": (SERVER + 'columns = ["t"]\n' + CLIENT, "server: columns: 't' is the target column"),
    "the id as a feature": (BASE + 'columns = ["i"]\n', "clients.shop: columns: 'i' is the id column"),
    "a column listed twice": (BASE + 'columns = ["x", "x"]\n', "clients.shop: columns: 'x' is listed twice"),
    "no column listed": (BASE + "columns = []\n", 'clients.shop: columns: the list is empty.*"all"'),
    "columns that are no names": (BASE + "columns = [1]\n", r"clients.shop.columns: \[1\] cannot be used"),
    "an unknown choice of columns": (BASE + 'columns = "some"\n', "clients.shop.columns: \"some\" cannot be.*'all'"),
    "broken TOML": (BASE + "[training", "not valid TOML: .*at end of document"),
    "a key given twice": (BASE + 'id = "j"\n', "not valid TOML"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_job_file_is_refused_by_key(case, tmp_path):
    text, reason = WRONG[case]
    with pytest.raises(ConfigError, match=reason) as refusal:
        load(tmp_path, text)
    assert str(refusal.value).startswith(str(tmp_path / "job.toml"))
    assert "cannot be used: settings" not in str(refusal.value)
    assert "Value error" not in str(refusal.value)
    assert "swordfish" not in str(refusal.value)


def test_a_missing_job_file_and_a_folder_are_refused_with_advice(tmp_path):
    with pytest.raises(ConfigError, match="`fedsdg init` writes one"):
        load_job(tmp_path / "job.toml")
    with pytest.raises(ConfigError, match="is a folder; give the job file"):
        load_job(tmp_path)


def test_a_job_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a UTF-8 text file"):
        load_job(tmp_path / "job.toml")


def test_paths_start_at_the_folder_of_the_job_file(tmp_path):
    job = load(tmp_path, BASE)
    assert job.server.table == tmp_path / "s.csv"
    assert job.clients["shop"].table == tmp_path / "c.csv"


def test_absolute_paths_stay_as_they_are(tmp_path):
    assert load(tmp_path, BASE.replace("c.csv", "/data/c.csv")).clients["shop"].table == Path("/data/c.csv")


def test_a_source_may_be_left_to_frames_that_are_passed_in_python(tmp_path):
    job = load(tmp_path, SERVER + '[clients.shop]\nid = "i"\n')
    assert job.clients["shop"].table is None


def test_rows_that_are_aligned_already_need_no_ids(tmp_path):
    text = '[job]\nids = "aligned"\n[server]\ntable = "s.csv"\ntarget = "t"\n[clients.shop]\ntable = "c.csv"\n'
    job = load(tmp_path, text)
    assert job.settings.ids == "aligned"
    assert job.clients["shop"].id is None
    assert load(tmp_path, BASE).settings.ids == "private"


def test_checkpoints_can_be_rarer_or_left_out(tmp_path):
    assert load(tmp_path, BASE).settings.checkpoint_every == 25
    assert load(tmp_path, "[job]\ncheckpoint_every = 0\n" + BASE).settings.checkpoint_every == 0


def test_settings_survive_being_written_and_read(tmp_path):
    settings = load(tmp_path, '[job]\npreset = "paper"\nids = "aligned"\ntest_fraction = 0.3\n' + BASE).settings
    assert RunSettings.from_json(settings.model_dump_json()) == settings
    with pytest.raises(ConfigError, match="damaged"):
        RunSettings.from_json("[]")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sqlite:///data/c.db", "sqlite:///{folder}/data/c.db"),
        ("sqlite+pysqlite:///c.db", "sqlite+pysqlite:///{folder}/c.db"),
        ("adbc+sqlite:///c.db", "adbc+sqlite:///{folder}/c.db"),
        ("sqlite:////data/c.db", "sqlite:////data/c.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite:///${DATA}/c.db", "sqlite:///${DATA}/c.db"),
        ("postgresql://u:${P}@h/c.db", "postgresql://u:${P}@h/c.db"),
    ],
)
def test_the_relative_path_of_a_database_starts_at_the_folder_of_the_job_file(written, meant, tmp_path):
    job = load(tmp_path, SERVER + DATABASE.replace("sqlite:///data/c.db", written) + QUERY)
    assert job.clients["shop"].database.get_secret_value() == meant.replace("{folder}", str(tmp_path))


def test_a_schema_says_what_columns_are(tmp_path):
    text = '[clients.shop.schema]\nzip = "category"\n"a b.c" = { kind = "ordinal", levels = ["low", "high"] }\n'
    pins = load(tmp_path, BASE + text).clients["shop"].pins
    assert pins["zip"] == ColumnPin(kind="category")
    assert pins["a b.c"].levels == ("low", "high")
    assert ClientSource(id="i", schema={"zip": "category"}).pins == {"zip": ColumnPin(kind="category")}


def test_an_encoding_says_how_columns_become_inputs(tmp_path):
    job = load(tmp_path, BASE + "[clients.shop.encoding]\nlevels = 5\n[server.encoding]\nwords = 7\n")
    assert job.clients["shop"].encoding == EncodingSettings(levels=5)
    assert job.server.encoding.words == 7


def test_no_password_is_in_the_representation_of_a_job(tmp_path):
    job = load(tmp_path, SERVER + DATABASE.replace("sqlite:///data/c.db", "postgresql://u:swordfish@h/n") + QUERY)
    assert "swordfish" not in repr(job) + str(job.model_dump()) + job.model_dump_json()


def test_an_empty_job_section_means_the_defaults(tmp_path):
    assert load(tmp_path, BASE).settings == RunSettings()


def test_the_seed_of_the_job_is_the_seed_of_the_training(tmp_path):
    assert load(tmp_path, "[job]\nseed = 7\n" + BASE).training.seed == 7
    assert load(tmp_path, BASE + "[training]\nseed = 8\n").training.seed == 8


def test_whole_numbers_are_accepted_where_fractions_are_possible(tmp_path):
    assert load(tmp_path, "[job]\ntest_fraction = 0\n" + BASE).test_fraction == 0


def test_one_setting_of_the_compact_phase_leaves_its_other_defaults_alone(tmp_path):
    compact = load(tmp_path, BASE + "[training.compact_phase]\nsteps = 5\n").training.compact_phase
    assert compact == COMPACT_PHASE.model_copy(update={"steps": 5})


def test_a_penalty_may_be_given_bare(tmp_path):
    assert load(tmp_path, BASE + "[training]\npenalty = 3\n").training.penalty.strength == 3
    assert load(tmp_path, BASE + '[training]\npenalty = "auto"\n').training == TrainingConfig()


def test_the_label_owner_may_be_the_only_party_with_columns(tmp_path):
    job = load(tmp_path, SERVER + 'columns = ["x", "y"]\n')
    assert job.server.columns == ("x", "y")
    assert not job.clients


@pytest.mark.parametrize("name", ["2nd-shop", "shop_3", "Läden"])
def test_plain_words_are_names(name, tmp_path):
    assert list(load(tmp_path, SERVER + CLIENT.replace("shop", f'"{name}"')).clients) == [name]


def test_a_job_can_be_built_in_python_with_the_same_checks():
    owner = LabelSource(name="bank", table="s.csv", id="i", target="t")
    client = ClientSource(table="c.csv", id="i")
    assert Job(server=owner, clients={"shop": client}).profile == "masked"
    with pytest.raises(ConfigError, match="no client takes part"):
        Job(server=owner)
    with pytest.raises(ConfigError, match="the label owner has that name"):
        Job(server=owner, clients={"bank": client})
    with pytest.raises(ConfigError, match="cannot be a party's name"):
        Job(server=owner, clients={"a/b": client})


def test_a_preset_can_be_named_and_changed(tmp_path):
    job = load(tmp_path, '[job]\npreset = "paper"\n' + BASE + "[training.gated_phase]\nsteps = 7\n")
    assert job.training.gated_phase.steps == 7
    assert job.training.gated_phase.embedding == 100
    assert job.training.gates.initialization == "inverse_gini"
    assert not job.training.retrain


def test_an_unknown_preset_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"job\.preset: 'default' or 'paper' or 'wide'"):
        load(tmp_path, '[job]\npreset = "best"\n' + BASE)
