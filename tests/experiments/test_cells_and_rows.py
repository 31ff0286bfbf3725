"""Claims about cells (which rows, which parties) and about what a row says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from experiment_helpers import TINY, small_cell

from fedsdg.baselines.all_features import AllFeatures
from fedsdg.baselines.final_model import train_final
from fedsdg.baselines.selector import Selection
from fedsdg.baselines.trained_model import TrainedModel
from fedsdg.config import PhaseSettings, TrainingConfig, paper_config
from fedsdg.errors import ConfigError
from fedsdg.experiments import accuracy
from fedsdg.experiments.ceiling import measure_ceiling
from fedsdg.experiments.measure import compare_with_truth, describe, measure
from fedsdg.experiments.paper_numbers import PARAMETERS
from fedsdg.experiments.parameters import count_parameters, paper_parameters
from fedsdg.learning.objective import Score

SCORE = Score(0.5, 0.5, 0.1, np.zeros(1))


def test_the_folds_of_a_seed_cover_every_row_once_and_keep_the_classes():
    cells = [small_cell(fold=fold) for fold in range(3)]
    tested = np.concatenate([cell.test_rows for cell in cells])
    assert sorted(tested) == list(range(60))
    shares = [cell.data.y[cell.test_rows].mean() for cell in cells]
    assert max(shares) - min(shares) <= 0.051
    for cell in cells:
        assert not set(cell.fit_rows) & set(cell.test_rows)
        assert np.array_equal(cell.vertical.test_rows, cell.test_rows)


@pytest.mark.parametrize("name", ["fedsdg", "original_gate", "sffs@0.5", "all", "group_lasso@matched"])
def test_what_a_model_has_learned_does_not_depend_on_test_rows(name):
    cell = small_cell()
    X, y = cell.data.X.copy(), cell.data.y.copy()
    X[cell.test_rows], y[cell.test_rows] = 1e6, 1 - y[cell.test_rows]
    learned = []
    for each in (cell, cell.changed(data=replace(cell.data, X=X, y=y))):
        # The folds follow the classes: with other labels the same rows must be asked for.
        each.__dict__.update(fit_rows=cell.fit_rows, test_rows=cell.test_rows)
        each.earlier["fedsdg"] = {"selected": 5}
        models = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TrainedModel, "score", lambda model, rows, kept=models: kept.append(model) or SCORE)
            accuracy.EXPERIMENT.variant(name).measure(each)
        state = {f"server/{key}": value for key, value in models[-1].server.snapshot().items()}
        for client_id, client in models[-1].federation.clients.items():
            state |= {f"{client_id}/{key}": value for key, value in client.learner.snapshot().items()}
        learned.append(state)
    assert learned[0].keys() == learned[1].keys()
    for key, value in learned[0].items():
        assert np.array_equal(value, learned[1][key]), key


def test_a_cell_follows_from_its_seed_and_fold_alone():
    first, again, other = small_cell(seed=1), small_cell(seed=1), small_cell(seed=2)
    assert np.array_equal(first.test_rows, again.test_rows)
    assert first.vertical.seeds == again.vertical.seeds
    assert not np.array_equal(first.test_rows, other.test_rows)
    assert set(first.vertical.seeds.values()).isdisjoint(other.vertical.seeds.values())
    assert measure(first, AllFeatures()) == measure(again, AllFeatures())


def test_a_fold_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="does not exist"):
        small_cell(fold=3)


def test_a_row_counts_what_was_selected_and_compares_it_with_the_truth():
    cell = small_cell()
    both = {name: np.flatnonzero(np.isin(part, [2, 17, 5, 6])) for name, part in cell.parts.items()}
    found = compare_with_truth(cell, both)
    assert found["columns"] == [2, 5, 6, 17]
    assert (found["selected"], found["precision"], found["recall"]) == (4, 0.5, 1.0)
    assert found["ratio"] == pytest.approx(4 / 24)


def test_recall_asks_only_for_columns_that_somebody_holds():
    cell = small_cell().changed(custom_parts={"client_1": np.array([0, 2]), "client_2": np.array([1, 3])})
    found = compare_with_truth(cell, {"client_1": np.array([1]), "client_2": np.array([0])})
    assert (found["precision"], found["recall"]) == (0.5, 1.0)


def test_bytes_are_the_embedding_values_of_a_hundred_predictions():
    answer = measure(small_cell(), AllFeatures())
    assert answer["embedding_open"] == 6
    assert answer["bytes"] == 100 * 6 * 4
    assert 0 <= answer["accuracy"] <= 1
    assert "r2" in measure(small_cell(regression=True), AllFeatures())


@pytest.mark.parametrize(
    "phase",
    [
        TINY.compact_phase,
        PhaseSettings(hidden=(), embedding=5, outputs=3, top_hidden=(), steps=1),
        PhaseSettings(hidden=(7, 6), embedding=2, outputs=4, top_hidden=(5, 5), steps=1),
    ],
)
def test_parameters_are_those_of_the_model_that_is_trained(phase):
    cell = small_cell(TrainingConfig(compact_phase=phase, validation=TINY.validation))
    chosen = Selection({"client_1": np.array([0, 3, 4]), "client_2": np.array([1])})
    model = train_final(cell.vertical, chosen)

    def size(module: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    clients = model.federation.clients.values()
    expected = sum(size(client.learner._bottom) for client in clients)
    expected += sum(layer.weights.size for layer in model.federation.layers.values()) + size(model.server._top)
    assert describe(cell, chosen)["parameters"] == expected


def test_the_papers_formula_gives_its_table_where_its_table_fits_the_data():
    shapes = {"ARCENE": (10_000, 2), "BASEHOCK": (4862, 2), "RELATHE": (4322, 2), "PCMAC": (3289, 2)}
    shapes |= {"GISETTE": (5000, 2), "ISOLET": (617, 26), "FRIEDMAN": (1000, 1)}
    for name, shape in shapes.items():
        assert paper_parameters(*shape) == PARAMETERS[name]
    assert paper_parameters(1000, 2) == PARAMETERS["MADELON"]  # which has 500 columns
    assert paper_parameters(784, 10) == PARAMETERS["COIL20"]  # which has 1,024 columns and 20 classes


def test_our_count_of_the_paper_preset_differs_from_the_formula_only_in_the_output_of_two_classes():
    phase = paper_config().gated_phase
    columns, widths = {"a": 300, "b": 317}, {"a": 100, "b": 100}
    assert count_parameters(phase, columns, widths, 26) == paper_parameters(617, 26)
    assert count_parameters(phase, columns, widths, 1) == paper_parameters(617, 1)


@pytest.mark.parametrize("regression", [False, True])
def test_the_ceiling_learns_easy_data_in_one_place(regression):
    cell = small_cell(regression=regression, n_rows=120, n_columns=18)
    answer = measure_ceiling(cell)
    assert answer["r2" if regression else "accuracy"] > 0.7
    assert answer["model"]
