"""Noise that a sample's number decides, whatever else is drawn."""

from __future__ import annotations

import math
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from bespoke import _core
from bespoke.arrays import Array, Arrays
from bespoke.error_mask import mean_squares
from bespoke.errors import Error
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


def check_deviation(arrays: Arrays, given: Array, mask: Optional[Array],
                    schedule: "_core.Schedule") -> None:
    """Refuses noise of another size than the path starts from, where that is not 1."""
    wanted = schedule.source_std
    if wanted == 1:
        return
    found = float(np.sqrt(mean_squares(arrays, arrays.wide(given), mask).mean()))
    if not math.isfinite(found) or found == 0:
        return  # what runs next says so
    share = 1.0 if mask is None else float(mean_squares(arrays, arrays.wide(mask), None).mean())
    # A factor of 1.4, and more where few numbers have a deviation of their own.
    few = 4 / math.sqrt(2 * share * math.prod(map(int, given.shape)))
    if abs(math.log(found / wanted)) <= math.log(1.4) + few:
        return
    is_normal = abs(math.log(found)) <= math.log(1.4) + few
    raise Error(f"the noise has the deviation {found:.3g}, and samples on the path "
                f"{schedule.name} start from {wanted:.4g}: multiply it by "
                f"{wanted / (1 if is_normal else found):.4g}")
