"""Noise that a sample's number decides, whatever else is drawn."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Union

import numpy as np

from bespoke import _core
from bespoke.field import ScheduleLike, schedule_of
from bespoke.structure import Structure


def noise(shape: Union[Sequence[int], Mapping[str, Sequence[int]]], seed: int = 0, first: int = 0,
          schedule: ScheduleLike = "fm-ot") -> Any:
    """Starting noise [count, ...], float32, of samples first, first + 1, ... of a seed.

    Sample 17 of seed 3 is the same in any batch, and the one the command line draws. The schedule
    scales it where its paths do not start from standard normal noise (edm). For PyTorch take
    torch.from_numpy of it. A dict of shapes gives a dict of arrays, for samples of several parts.
    """
    if isinstance(shape, Mapping):
        structure, whole = Structure.of_shapes(shape)
        return structure.split(noise(whole, seed, first, schedule))
    count, *rest = [int(size) for size in shape]
    values = _core.normal_noise(seed, first, count, int(np.prod(rest, dtype=np.int64)))
    return (values * schedule_of(schedule).source_std).reshape((count, *rest)).astype(np.float32)
