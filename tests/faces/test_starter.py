"""What `fedsdg init` writes."""

import re
import tomllib

from fedsdg.config import TrainingConfig
from fedsdg.starter import JOB

SETTING = re.compile(r"# (\[training\.|\w+ = )")


def test_the_settings_that_the_commented_job_names_are_the_defaults():
    training = JOB.format(owner="bank", clients="").partition("[training]")[2]
    uncommented = "\n".join(line[2:] if SETTING.match(line) else line for line in training.splitlines())
    named = tomllib.loads("[training]" + uncommented)["training"]
    assert named.pop("n_features") == 10  # the one that has no default
    assert {"gated_phase", "compact_phase", "penalty", "validation"} <= set(named)
    assert TrainingConfig(**named) == TrainingConfig()
