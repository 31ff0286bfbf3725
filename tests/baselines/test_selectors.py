"""Claims about methods as a whole: what they find, which rows they see, and that they are judged by one model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from baseline_helpers import TINY, easy_table, global_columns, vertical

from fedsdg.baselines.all_features import AllFeatures
from fedsdg.baselines.fedsdg_fs import FedSDG
from fedsdg.baselines.final_model import train_final
from fedsdg.baselines.gates import run_gates
from fedsdg.baselines.group_lasso import GroupLasso
from fedsdg.baselines.less_vfl import LessVFL
from fedsdg.baselines.original_gate import OriginalGate
from fedsdg.baselines.ranking import HowMany, RankingSelector, best_share, top
from fedsdg.baselines.selector import SERVER, Selection, selection_of_masks
from fedsdg.baselines.sffs import f_scores
from fedsdg.baselines.survival import FairPenalty
from fedsdg.baselines.vflfs import VFLFS
from fedsdg.errors import ConfigError
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.plain_federation import PlainFederation
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.two_phase_training import train_on_all_columns

SELECTORS = [
    AllFeatures(),
    RankingSelector("sffs", f_scores, HowMany(count=3)),
    RankingSelector("sffs", f_scores),
    GroupLasso(HowMany(count=3), steps=60),
    LessVFL(pretraining_steps=60),
    LessVFL(HowMany(count=3), pretraining_steps=60),
    VFLFS(HowMany(count=3), steps=60),
    OriginalGate(),
    FedSDG(),
]


@pytest.fixture(scope="module")
def easy():
    return vertical(*easy_table())


@pytest.mark.parametrize("selector", SELECTORS, ids=lambda each: each.name)
def test_a_selection_is_ascending_repeatable_and_blind_to_test_rows(selector, easy):
    found = selector.select(easy)
    assert found.n_selected >= 1
    for client, columns in found.columns.items():
        assert (np.diff(columns) > 0).all()
        assert columns.max(initial=0) < easy.tables[client].n_columns
    X, y = easy_table()
    X[easy.test_rows], y[easy.test_rows] = -7.0, 1 - y[easy.test_rows]
    again = selector.select(vertical(X, y))
    assert global_columns(again) == global_columns(found)


@pytest.mark.parametrize(
    "selector",
    [
        RankingSelector("sffs", f_scores, HowMany(count=2)),
        GroupLasso(HowMany(count=2), steps=200),
        FedSDG(2),
    ],
    ids=lambda each: each.name,
)
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_methods_that_are_told_the_number_find_the_two_columns_that_matter(selector, task):
    data = vertical(*easy_table(400, task=task))
    assert global_columns(selector.select(data)) == [1, 8]


def test_vflfs_ranks_the_columns_that_matter_above_most_others():
    data = vertical(*easy_table(400))
    assert {1, 8} <= set(global_columns(VFLFS(HowMany(count=4), steps=300).select(data)))


def test_a_penalty_is_relative_to_what_each_clients_strongest_column_bears():
    first = {name: torch.nn.Parameter(torch.ones(2, 3)) for name in ("loud", "quiet", "silent")}
    first["loud"].grad = torch.tensor([[3.0, 0.0, 1.0], [4.0, 0.0, 1.0]])
    first["quiet"].grad = torch.tensor([[0.0, 0.6, 0.0], [0.0, 0.8, 0.0]])
    fair = FairPenalty()
    shares = fair.shares(first)
    assert shares == pytest.approx({"loud": 2.5, "quiet": 0.5, "silent": 0.0})  # 5, 1 and 0 of a mean of 2
    first["loud"].grad.zero_()
    assert 1 < fair.shares(first)["loud"] < 2.5  # one batch is not the whole truth
    assert FairPenalty().shares({"a": torch.nn.Parameter(torch.ones(2, 3))}) == {"a": 1.0}


@pytest.mark.parametrize("spared", [0, 1])
@pytest.mark.parametrize("selector", [GroupLasso(HowMany(count=4), steps=200), VFLFS(HowMany(count=4), beta=0.05)])
def test_each_client_bears_its_share_of_the_penalty(selector, spared, monkeypatch):
    """Whoever bears nothing keeps its columns, also those that tell nothing."""
    data = vertical(*easy_table(400))
    name = list(data.tables)[spared]
    monkeypatch.setattr(FairPenalty, "shares", lambda _, first: {each: 3.0 * (each != name) for each in first})
    assert len(selector.select(data).columns[name]) == 4


def test_columns_whose_weights_became_zero_are_ranked_by_how_long_that_took():
    data = vertical(*easy_table(400))
    few, many = (VFLFS(HowMany(count=count), beta=0.05) for count in (4, 8))
    assert set(global_columns(few.select(data))) < set(global_columns(many.select(data)))
    scores = np.concatenate(list(many.select(data).scores.values()))
    assert len(np.unique(scores)) == len(scores)  # nobody is kept for standing first in a table


def test_all_methods_train_and_validate_on_the_rows_of_the_gated_procedure(easy):
    result = run_gates(easy, TINY).result
    assert np.array_equal(result.train_rows, easy.train_rows)
    assert np.array_equal(result.validation_rows, easy.validation_rows)
    assert not set(easy.test_rows) & set(easy.fit_rows)


def test_the_final_model_of_all_columns_is_the_one_that_the_package_trains_on_all_columns(easy):
    federation = PlainFederation(
        {name: LocalClient(name, table, easy.seeds[name]) for name, table in easy.tables.items()}
    )
    server = train_on_all_columns(federation, easy.labels, TINY, easy.seeds[SERVER], rows=easy.fit_rows)
    expected = server.score(federation.forward(easy.test_rows, 1, "test"), easy.test_rows)
    model = train_final(easy, AllFeatures().select(easy))
    assert model.score(easy.test_rows).value == expected.value
    assert model.score(easy.test_rows).loss == pytest.approx(expected.loss, abs=1e-5)


def test_a_client_without_a_selected_column_takes_no_part(easy):
    model = train_final(easy, Selection({"a": np.array([1]), "b": np.array([], dtype=np.int64)}))
    assert model.embedding == {"a": 4}
    assert model.embedding_open == 4


def test_the_final_model_uses_the_selected_columns_and_no_other(easy):
    chosen = Selection({"a": np.array([1]), "b": np.array([2])})
    good = train_final(easy, chosen).score(easy.test_rows).value
    bad = train_final(easy, Selection({"a": np.array([0]), "b": np.array([0])})).score(easy.test_rows).value
    assert good > 0.85
    assert bad < 0.7


def test_an_embedding_width_that_a_method_found_is_used_as_it_is_and_gates_keep_to_their_narrowest(easy):
    assert easy.config.gates.narrowest_embedding == 8
    chosen = Selection({"a": np.array([1]), "b": np.array([2])}, embedding={"a": 3, "b": 1})
    assert train_final(easy, chosen).embedding == {"a": 3, "b": 1}
    wider = Selection(chosen.columns, embedding={"a": 9, "b": 4})
    assert train_final(easy, wider).embedding == {"a": 4, "b": 4}
    client = easy.prepared_clients["a"].fresh()
    client._open_embeddings = 1  # what the gates of a run would have left
    assert client.compact_width(PhasePlan("compact", TINY, 2, 12, len(easy.train_rows), 1)) == 4


def test_nothing_selected_is_an_error(easy):
    with pytest.raises(ConfigError, match="nothing to train on"):
        train_final(easy, Selection({"a": np.array([], dtype=int), "b": np.array([], dtype=int)}))
    with pytest.raises(ConfigError, match="kept no column"):
        selection_of_masks({"a": np.zeros(3, bool)})


def test_the_first_k_are_taken_over_all_clients_and_ties_by_order():
    scores = {"a": np.array([3.0, 1.0, -np.inf]), "b": np.array([2.0, 3.0])}
    assert {name: found.tolist() for name, found in top(scores, 2).columns.items()} == {"a": [0], "b": [1]}
    assert {name: found.tolist() for name, found in top(scores, 3).columns.items()} == {"a": [0], "b": [0, 1]}


def test_validation_prefers_the_smaller_of_two_equally_good_shares():
    X, y = easy_table(400, n_columns=40)
    data = vertical(X, y)
    scores = {"a": f_scores(data, "a"), "b": f_scores(data, "b")}
    assert best_share(data, scores).n_selected <= 4


@pytest.mark.parametrize(
    ("how_many", "text", "number"),
    [
        (HowMany(count=7), "k=7", 7),
        (HowMany(count=70), "k=70", 20),
        (HowMany(share=0.5), "0.5", 10),
        (HowMany(share=0.01), "0.01", 1),
        (HowMany(), "validated", None),
    ],
)
def test_how_many_is_a_number_a_share_or_a_choice(how_many, text, number):
    assert (str(how_many), how_many.fixed(20)) == (text, number)


@pytest.mark.parametrize("wrong", [{"count": 0}, {"share": 0.0}, {"share": 1.5}, {"count": 1, "share": 0.5}])
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(ConfigError):
        HowMany(**wrong)


def test_vflfs_needs_to_be_told_how_many(easy):
    with pytest.raises(ConfigError, match="needs a number"):
        VFLFS(HowMany()).select(easy)


def test_original_gate_has_neither_gini_start_nor_embedding_gates_and_says_how_its_penalty_is_reduced():
    config = OriginalGate().config(TINY)
    assert config.gates.initialization == "constant"
    assert not config.gates.embedding_gates
    assert config.penalty == TINY.penalty
    literal = OriginalGate(penalty=0.1, reduction="sum")
    assert literal.name == "original_gate[sum 0.1]"
    assert (literal.config(TINY).penalty.strength, literal.config(TINY).penalty.reduction) == (0.1, "sum")
    assert FedSDG().config(TINY) == TINY
    assert FedSDG(5).name == "fedsdg@k=5"
