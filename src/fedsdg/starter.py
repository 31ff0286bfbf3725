"""What `fedsdg init` writes: a commented job file, and sample tables to run it on."""

from __future__ import annotations

from pathlib import Path

from fedsdg.datasets.named_tables import bank_loans
from fedsdg.demo import write_tables
from fedsdg.errors import ConfigError

JOB = """\
# A fedsdg job. `fedsdg inspect job.toml` shows what the columns are taken for, `fedsdg estimate job.toml` what the job
# costs, `fedsdg run job.toml --out runs/first` runs it.
# Paths are relative to this file. Tables are CSV, TSV, Parquet, Arrow or Feather, with an id column and columns of
# numbers, dates, categories or text; cells may be empty. Rows may be in any order.

[job]
profile = "masked"       # "masked": everything between the parties is encrypted. "plain": in the clear, for experiments
key_bits = 2048          # 3072 between organisations
# label_epsilon = 3.0    # randomised response on the labels: bounds what clients can infer about any label
test_fraction = 0.2      # rows that nobody learns from, for the final score
# ids = "aligned"        # row k is the same person everywhere; default: "private", common ids are found in secret
# checkpoint_every = 25  # steps between two checkpoints; 0: none
# preset = "paper"       # the settings that the paper prints; "wide": made for accuracy, many times the cost
seed = 0                 # joint public seed: orders the batches, nothing else

[server]                 # the label owner
name = "{owner}"
table = "{owner}.csv"
id = "customer_id"
target = "defaulted"
# label_key = "k.key"    # the lasting key of label_epsilon; default: beside the table, made when first needed
# columns = "all"        # let the label owner bring its other columns, too (or a list of names)

{clients}
# A party may bring the rows of a query instead of a table; ${{NAME}} is filled in from the environment:
# database = "postgresql://reader:${{PASSWORD}}@host/name"
# query = "SELECT * FROM customers"
# What a column is, is inferred, or said in [server.schema] or [clients.NAME.schema]:
# zip_code = "category"  # or "number", "ordinal", "text", "date", "ignore"
# rating = {{ kind = "ordinal", levels = ["bad", "fair", "good"] }}
# How columns become inputs, in [clients.NAME.encoding] (these are the defaults):
# levels = 20            # most inputs of a category
# rare_below = 10        # levels and words that fewer training rows hold are grouped, or not counted
# words = 64             # counted words of a text

[training]               # everything here is optional; these are the defaults
# task = "auto"          # or "binary", "multiclass", "regression"
# model = "mlp"          # or "linear": logistic or linear regression
# interactive = "dense"  # or "elementwise": the paper's layer
# n_features = 10        # select exactly that many; without it (the default), penalty and validation decide

# [training.gated_phase]
# steps = 250
# embedding = 8
# batch_size = 128

# [training.compact_phase]
# steps = 600

# [training.penalty]
# strength = "auto"      # or a number

# [training.validation]  # how many columns, where n_features does not say
# rule = "plausible"     # or "one_standard_error": the fewest that lose nothing by the rows at hand
# plenty = 0.15          # the share of all columns that is enough where the rows leave the number open
"""

CLIENT = """\
[clients.{name}]
table = "{name}.csv"
id = "customer_id"
# columns = ["a", "b"]   # default: all columns besides the id

"""


def write_starter(folder: Path) -> list[Path]:
    """Write job.toml and sample tables; nothing is overwritten."""
    story = bank_loans(1000, n_noise=20)
    targets = [folder / "job.toml", *(folder / f"{name}.csv" for name in (story.label_owner, *story.tables))]
    clients = "".join(CLIENT.format(name=name) for name in story.tables)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        existing = [path for path in targets if path.exists() or path.is_symlink()]
        if existing:
            raise ConfigError(f"{existing[0]} exists; `fedsdg init` overwrites nothing. Choose another folder.")
        targets[0].write_text(JOB.format(owner=story.label_owner, clients=clients), encoding="utf-8")
        write_tables(folder, story)
    except FileExistsError:
        raise ConfigError(f"{folder} is a file; choose another folder.") from None
    except OSError as problem:
        raise ConfigError(f"Cannot write to {folder}: {problem.strerror or problem}.") from None
    return targets
