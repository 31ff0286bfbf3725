import pickle

import pytest
import torch

from fedsdg.learning.noise_tape import PLACES, KeptAfter, NoiseTape, Normal
from fedsdg.learning.randomness import RandomStreams

STREAMS = RandomStreams(b"a private seed of a party", ("client", "bank"))


def test_a_piece_depends_on_seed_purpose_step_and_shape_alone():
    tape = NoiseTape(STREAMS, "input-noise", Normal())
    first = tape.cut((4, 7), 3).clone()
    tape.cut((300, 700), 0)  # a longer piece before, and the same again after
    assert torch.equal(tape.cut((4, 7), 3), first)
    assert torch.equal(NoiseTape(STREAMS, "input-noise", Normal()).cut((4, 7), 3), first)
    other_seed = RandomStreams(b"another private seed", ("client", "bank"))
    for other in (
        NoiseTape(STREAMS, "input-noise", Normal()).cut((4, 7), 4),
        NoiseTape(STREAMS, "input-gates", Normal()).cut((4, 7), 3),
        NoiseTape(other_seed, "input-noise", Normal()).cut((4, 7), 3),
    ):
        assert not torch.equal(other, first)


def test_a_value_meets_another_draw_at_every_step():
    tape = NoiseTape(STREAMS, "input-gates", Normal())
    of_one_value = torch.stack([tape.cut((8, 5), step)[2, 3] for step in range(400)])
    assert len(of_one_value.unique()) > 390
    assert abs(float(of_one_value.mean())) < 4 / 20  # four standard errors
    assert float(of_one_value.std()) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("spread", [0.15, 2.0])
def test_normal_draws_have_their_spread(spread):
    piece = NoiseTape(STREAMS, "input-noise", Normal(spread)).cut((PLACES,), 0)
    assert float(piece.mean()) == pytest.approx(0, abs=5 * spread / PLACES**0.5)
    assert float(piece.std()) == pytest.approx(spread, rel=0.01)


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_keeps_its_share_and_sums_keep_their_size(dropout):
    piece = NoiseTape(STREAMS, "input-dropout", KeptAfter(dropout)).cut((PLACES,), 0)
    assert sorted(piece.unique().tolist()) == pytest.approx([0, 1 / (1 - dropout)])
    assert float((piece == 0).float().mean()) == pytest.approx(dropout, abs=0.005)
    assert float(piece.mean()) == pytest.approx(1, abs=0.01)


def test_an_empty_piece_is_empty():
    assert NoiseTape(STREAMS, "input-noise", Normal()).cut((0, 3), 1).shape == (0, 3)


@pytest.mark.parametrize("draw", [Normal(0.3), KeptAfter(0.5)])
def test_a_copy_takes_no_tape_along_and_cuts_the_same_pieces(draw):
    tape = NoiseTape(STREAMS, "input-noise", draw)
    piece = tape.cut((3, 5), 2)
    written = pickle.dumps(tape)
    assert len(written) < 2_000
    assert torch.equal(pickle.loads(written).cut((3, 5), 2), piece)
