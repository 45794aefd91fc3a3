"""A first look at a field: whether its noise is of the path's size, whether it answers the same twice,
and how fine its times are."""

from __future__ import annotations

import math
from typing import Callable, List, Optional, Sequence

import numpy as np

from bespoke.arrays import Array
from bespoke.error_mask import mean_squares
from bespoke.errors import Error
from bespoke.field import Field

Answers = Callable[[Sequence[float]], np.ndarray]

# Rounding of half precision and sums in another order stay below, dropout of a tenth does not.
_MOST_CHANGE = 0.02
_NEAR = 3e-5  # times so near are one level of noise to a network that rounds them
_STILL = 16.0  # epsilons by which rows of a batch that are asked the same may differ
_PLACES = (0.31362, 0.50571, 0.72084)  # where no usual number of levels has a bound
_LATEST = 0.98
_MOST_LEVELS, _LEAST_LEVELS = 5000, 4
_SCANNED = 16  # times a call
_PRECISION = 1e-5  # of the times at which the answer changes


def check_deviation(field: Field, mask: Optional[Array]) -> None:
    """Refuses noise of another size than the path starts from, where that is not 1."""
    arrays, noise, wanted = field.arrays, field.noise, field.schedule.source_std
    if wanted == 1:
        return
    found = float(np.sqrt(mean_squares(arrays, arrays.wide(noise), mask).mean()))
    if not math.isfinite(found) or found == 0:
        return  # what runs next says so
    share = 1.0 if mask is None else float(mean_squares(arrays, arrays.wide(mask), None).mean())
    # A factor of 1.4, and more where few numbers have a deviation of their own.
    most = math.log(1.4) + 4 / math.sqrt(2 * share * math.prod(map(int, noise.shape)))
    if abs(math.log(found / wanted)) <= most:
        return
    factor = wanted if abs(math.log(found)) <= most else wanted / found
    raise Error(f"the noise has the deviation {found:.3g}, and samples on the path "
                f"{field.schedule.name} start from {wanted:.4g}: multiply it by {factor:.4g}")


def levels_of_time(field: Field, noise: Array) -> Optional[int]:
    """How many levels of noise the field tells apart, or None where its times are not rounded.

    A field that answers the same call differently is refused.
    """
    def answers(times: Sequence[float]) -> np.ndarray:
        x = field.arrays.concatenate([noise[:1]] * len(times))
        found = field.arrays.to_numpy(field.network(x, list(times), [0] * len(times)))
        return found.reshape(len(times), -1)

    times = [*(t + shift for t in _PLACES for shift in (0.0, _NEAR)), _PLACES[0]]
    found = answers(times)
    _check_repeats(found, answers(times))
    rows_agree = bool((found[0] == found[-1]).all())
    least = 0.0 if rows_agree else _STILL * field.epsilon
    pairs = found[:-1].reshape(len(_PLACES), 2, -1)
    moved = [_differ(left, right, least) for left, right in pairs]
    # One of the places may lie where a level ends. What never moves takes no time.
    if sum(moved) > 1 or not _differ(pairs[0, 0], pairs[-1, 0], least):
        return None
    return _counted_levels(answers, least)


def check_repeats(field: Field, noise: Array) -> None:
    """Refuses a field that answers the same call differently, by asking twice at one time.

    For fields that take one time for all their samples.
    """
    count = int(noise.shape[0])
    found, again = (field.arrays.to_numpy(
        field.network(noise, [_PLACES[1]] * count, list(range(count)))) for _ in range(2))
    _check_repeats(found, again)


def _differ(left: np.ndarray, right: np.ndarray, least: float) -> bool:
    """By more than that part of their root mean square."""
    return bool(np.abs(left - right).max() > least * float(np.sqrt(np.mean(left ** 2))))


def _check_repeats(found: np.ndarray, again: np.ndarray) -> None:
    if not (np.isfinite(found).all() and np.isfinite(again).all()):
        return  # what runs next says so, and where
    scale = float(np.sqrt(np.mean(found ** 2)))
    change = float(np.sqrt(np.mean((found - again) ** 2)))
    if change > _MOST_CHANGE * scale:
        raise Error(f"the field answers the same call differently, by {change / scale:.0%} of its "
                    "root mean square; make it deterministic (dropout off: call eval(); fixed "
                    "random numbers)")


def _counted_levels(answers: Answers, least: float) -> Optional[int]:
    """1 / the distance of the times at which the answer changes, if they are evenly spread."""
    first = _next_change(answers, _PLACES[0], least)
    second = None if first is None else _next_change(answers, first + _NEAR, least)
    if first is None or second is None:
        return None
    width = second - first
    # The farther apart two changes are, the better their distance is known. Levels of bfloat16 grow
    # with the time, and an answer that moves all the time has changed much anywhere: neither
    # changes where it should.
    for far in (3, 8, 64, 512):
        if first + (far + 1) * width > _LATEST:
            break
        change = _next_change(answers, first + (far - 0.5) * width, least)
        if change is None or abs(change - first - far * width) > 0.25 * width:
            return None
        width = (change - first) / far
    levels = round(1 / width)
    even = abs(1 / width - levels) < max(0.02, 2e-3 * levels)
    return levels if even and _LEAST_LEVELS <= levels <= _MOST_LEVELS else None


def _next_change(answers: Answers, begin: float, least: float) -> Optional[float]:
    """The first time after `begin` at which the answer is another."""
    reach = min(0.3, 0.999 - begin)
    offsets: List[float] = [0.0, *np.geomspace(_NEAR / 2, reach, _SCANNED - 1)]
    while True:
        found = answers([begin + offset for offset in offsets])
        moved = [_differ(found[0], answer, least) for answer in found]
        if not any(moved):
            return None
        # Those before the first are all alike, so the change lies right before it.
        first = moved.index(True)
        low, high = offsets[first - 1], offsets[first]
        if high - low < _PRECISION:
            return begin + high
        offsets = [0.0, *np.linspace(low, high, _SCANNED - 1)]
