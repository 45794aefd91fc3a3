"""Example inputs of a network, made from its card: what exports are traced with and checked on."""

import torch

from bespoke.card import LAYOUTS, input_deviation, network_time


def random(shape):
    """Standard normal numbers, the same at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def network_inputs(card, times):
    """(x [batch, *sample_shape], time [batch], conditions ...) for a batch of our times.

    As the network is called: with the channels at the end, or without a time, where the card says
    so.
    """
    batch = len(times)
    deviations = torch.tensor([input_deviation(card, t) for t in times])
    x = random([batch, *card["sample_shape"]])
    x = x * deviations.reshape([batch] + [1] * len(card["sample_shape"]))
    if card.get("layout") == LAYOUTS[1]:
        x = x.movedim(1, -1).contiguous()
    conditions = [_condition(each, batch) for each in card.get("conditions", [])]
    if card["time"]["convention"] == "none":
        return (x, *conditions)
    dtype = torch.int64 if card["time"].get("integer") else torch.float32
    own_times = torch.tensor([network_time(card, t) for t in times], dtype=dtype)
    return (x, own_times, *conditions)


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
