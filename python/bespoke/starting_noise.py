"""Noise that a sample's number decides, whatever else is drawn."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from bespoke import _core
from bespoke.field import ScheduleLike, schedule_of


def noise(shape: Sequence[int], seed: int = 0, first: int = 0,
          schedule: ScheduleLike = "fm-ot") -> np.ndarray:
    """Starting noise [count, ...], float32, of samples first, first + 1, ... of a seed.

    Sample 17 of seed 3 is the same in any batch, and the one the command line draws. The schedule
    scales it where its paths do not start from standard normal noise (edm). For PyTorch take
    torch.from_numpy of it.
    """
    count, *rest = [int(size) for size in shape]
    values = _core.normal_noise(seed, first, count, int(np.prod(rest, dtype=np.int64)))
    return (values * schedule_of(schedule).source_std).reshape((count, *rest)).astype(np.float32)
