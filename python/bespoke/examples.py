"""Example inputs of a network, made from its card: what exports are traced with and checked on."""

import math

import torch

from bespoke.card import LAYOUTS, has_parts, input_deviation, network_time


def random(shape):
    """Standard normal numbers, the same at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def network_inputs(card, times):
    """(x [batch, *sample_shape], time [batch], conditions ...) for a batch of our times.

    As the network is called: with the channels at the end, without a time, or with an x for each
    part of a sample, where the card says so.
    """
    batch = len(times)
    states = _states(card, times)
    conditions = [_condition(each, batch) for each in card.get("conditions", [])]
    if card["time"]["convention"] == "none":
        return (*states, *conditions)
    dtype = torch.int64 if card["time"].get("integer") else torch.float32
    own_times = torch.tensor([network_time(card, t) for t in times], dtype=dtype)
    return (*states, own_times, *conditions)


def _states(card, times):
    """The tensors of a sample that are x at these times."""
    batch, several = len(times), has_parts(card)
    shapes = list(card["sample_shape"].values()) if several else [card["sample_shape"]]
    sizes = [math.prod(shape) for shape in shapes]
    deviations = torch.tensor([input_deviation(card, t) for t in times])
    numbers = (random([batch, sum(sizes)]) * deviations[:, None]).split(sizes, 1)
    states = [part.reshape([batch, *shape]).contiguous() for part, shape in zip(numbers, shapes)]
    if card.get("layout") == LAYOUTS[1]:
        return [state.movedim(1, -1).contiguous() for state in states]
    return states


def decoder_inputs(sample_shape, decoder_card, times):
    """(latents [batch, *sample_shape],) as the decoder gets them."""
    latents = random([len(times), *sample_shape])
    return (latents / decoder_card.get("scale", 1.0) + decoder_card.get("shift", 0.0),)


def _condition(condition, batch):
    """Values [batch] or [batch, *shape]; the null class, where there is one, among them."""
    if "classes" in condition:
        values = torch.arange(batch) * 7 % condition["classes"]
        if "null" in condition and batch > 1:
            values[-1] = condition["null"]
        return values
    shape = [batch, *condition["shape"]]
    # The vocabulary of integer tensors is not known; 0 and 1 are in any.
    return random(shape) if condition["dtype"] == "float32" else (random(shape) > 0).long()
