"""A torch module and its Adam optimiser as named arrays and back: state is data, never a pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedsdg.errors import DataError

StateArrays: TypeAlias = dict[str, NDArray[Any]]


def build_adam(model: nn.Module, rate: float, weight_decay: float) -> torch.optim.AdamW | None:
    """Return Adam with decoupled decay, or nothing for a model without parameters."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # Fused: one call instead of a dozen per parameter, which small models would spend a fifth of their time in.
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=weight_decay, fused=True) if parameters else None


def adam_step(optimizer: torch.optim.AdamW | None, rate: float) -> None:
    """Take one step at this rate and forget the gradients."""
    if optimizer is not None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def model_to_arrays(model: nn.Module, optimizer: torch.optim.AdamW | None) -> StateArrays:
    """Copy parameters, buffers and moments into arrays."""
    arrays: StateArrays = {f"model/{name}": value.numpy().copy() for name, value in model.state_dict().items()}
    if optimizer is not None:
        for index, parameter in enumerate(optimizer.param_groups[0]["params"]):
            for key, value in optimizer.state.get(parameter, {}).items():
                arrays[f"adam/{index}/{key}"] = np.asarray(value.numpy()).copy()
    return arrays


def model_from_arrays(
    model: nn.Module, optimizer: torch.optim.AdamW | None, arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Put parameters, buffers and moments back."""
    own = {name.removeprefix("model/"): value for name, value in arrays.items() if name.startswith("model/")}
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    if {name: tuple(np.shape(value)) for name, value in own.items()} != expected:
        raise DataError("a snapshot does not fit this model: it was taken from a model of other sizes")
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in own.items()})
    if optimizer is None:
        return
    optimizer.state.clear()
    for index, parameter in enumerate(optimizer.param_groups[0]["params"]):
        prefix = f"adam/{index}/"
        moments = {
            name.removeprefix(prefix): torch.from_numpy(np.array(value))
            for name, value in arrays.items()
            if name.startswith(prefix)
        }
        if moments:
            optimizer.state[parameter] = moments
