"""The lasting key of `label_epsilon`: made once, kept with the label owner, and never for a job that does not run."""

from __future__ import annotations

import numpy as np
import pytest

import fedsdg
from fedsdg.errors import ConfigError
from fedsdg.server.label_privacy import load_label_key, randomised_response

KEY = bytes(range(32))


def protected(job_folder, epsilon=2):
    job_folder.job_settings = f'profile = "plain"\nlabel_epsilon = {epsilon}'
    return job_folder


def key_file(job_folder):
    return job_folder.path / "owner.csv.label-key"


def test_a_run_makes_the_key_for_its_owner_only_and_the_next_run_keeps_it(job_folder):
    job = protected(job_folder).write()
    first = fedsdg.run(job, out=job_folder.run)
    made = key_file(job_folder).read_bytes()
    assert key_file(job_folder).stat().st_mode & 0o777 == 0o600
    assert any("label_epsilon" in note for note in first.notes)
    assert not any("this run only" in note for note in first.notes)
    fedsdg.run(job)
    assert key_file(job_folder).read_bytes() == made
    secret = made.strip()
    assert not any(secret in path.read_bytes() for path in job_folder.run.rglob("*") if path.is_file())


def test_an_estimate_makes_no_key(job_folder, command):
    assert command("estimate", protected(job_folder).write()).code == 0
    assert not key_file(job_folder).exists()


def test_a_refused_job_makes_no_key(job_folder):
    job_folder.frames["owner"] = job_folder.frames["owner"].with_columns(label=np.linspace(0.1, 1.3, 60))
    with pytest.raises(ConfigError, match="label_epsilon"):
        fedsdg.run(protected(job_folder).write())
    assert not key_file(job_folder).exists()


@pytest.mark.parametrize("content", ["", "not hexadecimal", "abcd", "é" * 40])
def test_a_key_that_is_no_key_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "key"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="label key") as caught:
        load_label_key(path)
    assert not content or content not in str(caught.value)
    assert path.read_text(encoding="utf-8") == content


def test_a_folder_or_a_missing_folder_cannot_hold_the_key(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere" / "key"):
        with pytest.raises(ConfigError, match="label key"):
            load_label_key(path)


def test_a_person_gets_the_same_answer_in_any_order_and_company():
    labels = np.random.default_rng(0).integers(0, 3, 300)
    ids = [f"person {i}" for i in range(300)]
    answers = dict(zip(ids, randomised_response(labels, 1.0, KEY, ids).tolist(), strict=True))
    order = np.random.default_rng(1).permutation(300)[:200]
    again = randomised_response(labels[order], 1.0, KEY, [ids[i] for i in order])
    assert again.tolist() == [answers[ids[i]] for i in order]
    assert (randomised_response(labels, 1.0, KEY[::-1], ids) != list(answers.values())).any()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_labels_are_kept_as_often_as_the_bound_says(epsilon):
    labels = np.random.default_rng(0).integers(0, 4, 20_000)
    kept = np.mean(randomised_response(labels, epsilon, KEY) == labels)
    expected = np.exp(epsilon) / (np.exp(epsilon) + 3)
    assert abs(kept - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000)
