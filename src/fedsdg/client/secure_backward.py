"""Algorithm 3 at a client: read dL/dG, answer with a fresh share, learn."""

from __future__ import annotations

from fedsdg.client.state import ClientState
from fedsdg.errors import ProtocolError
from fedsdg.messages.secure_backward import ApplyGradient, ShareUpdate


def apply_gradient(state: ClientState, request: ApplyGradient) -> ShareUpdate:
    """A3.2: both ciphertexts are checked and used with the OLD share before anything changes."""
    batch, learner, share = state.pending_batch, state.local.learner, state.share
    if batch is None or batch.step != request.step:
        raise ProtocolError(f"No batch of step {request.step} waits for its gradient.")
    dG = share.gradient(request.embedding_gradient)
    update = share.update(request.weight_gradient)
    learner.apply_gradient(dG, request.step)
    state.pending_batch = None
    kept = learner.drop_closed_dimensions()
    if kept is None:
        return ShareUpdate(update, None)
    share.keep(kept)
    return ShareUpdate(update, tuple(kept.tolist()))
