"""What a model's own sampler does to its data predictions: clamping, or dynamic thresholding."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from bespoke.arrays import Array, Arrays
from bespoke.errors import Error

ClipLike = Union[None, bool, float, Sequence[float], Mapping[str, Any], "Clip"]
_FORMS = ('True for [-1, 1], R for [-R, R], [least, most] or {"quantile": 0.995, "cap": 1.5}; None '
          "where nothing is clipped")


class Clip(NamedTuple):
    """Every data prediction to [least, most]; with a quantile, by a threshold of its own.

    The threshold s of a sample is that quantile of its magnitudes, but within [most, cap]; the
    prediction is clamped to [-s, s] and multiplied by most / s (Imagen's). With guidance the guided
    prediction is clipped.
    """

    least: float = -1.0
    most: float = 1.0
    quantile: float = 0.0  # 0: a fixed range
    cap: float = 0.0

    @classmethod
    def of(cls, given: ClipLike) -> "Optional[Clip]":
        """From what users give and what solver files say; None where nothing is clipped."""
        if given is None or given is False or isinstance(given, Clip):
            return given or None
        clip = cls._read(given)
        problem = clip._problem()
        if problem:
            raise Error(f"clip: {problem}, found {given!r}")
        return clip

    @classmethod
    def of_diffusers(cls, config: Mapping[str, Any]) -> "Optional[Clip]":
        """What a scheduler with this config does."""
        if config.get("thresholding"):
            return cls.of({"quantile": float(config.get("dynamic_thresholding_ratio", 0.995)),
                           "cap": float(config.get("sample_max_value", 1.0))})
        if config.get("clip_sample"):
            return cls.of(float(config.get("clip_sample_range", 1.0)))
        return None

    @classmethod
    def _read(cls, given: Any) -> "Clip":
        if given is True:
            return cls()
        if isinstance(given, Mapping):
            unknown = set(given) - {"quantile", "cap", "range"}
            if unknown or not {"quantile", "cap"} <= set(given):
                raise Error(f"clip is {_FORMS}, found {given!r}")
            return cls(*_numbers(given.get("range", (-1.0, 1.0)), 2, given),
                       *_numbers((given["quantile"], given["cap"]), 2, given))
        if isinstance(given, Real):
            return cls(*_numbers((-given, given), 2, given))
        return cls(*_numbers(given, 2, given))

    def _problem(self) -> str:
        if not (all(map(math.isfinite, self)) and self.least < self.most):
            return "the range must be [least, most]"
        if self.quantile == 0 and self.cap == 0:
            return ""
        if not 0 < self.quantile < 1:
            return "the quantile must lie between 0 and 1"
        if self.least != -self.most or self.cap < self.most:
            return "a dynamic threshold needs a range even about 0 and a cap not below it"
        return ""

    def on(self, arrays: Arrays, data: Array) -> Array:
        """The data predictions [samples, ...], clipped."""
        if self.quantile == 0:
            return arrays.clamp(data, self.least, self.most)
        sizes = arrays.magnitude_quantiles(data, self.quantile)
        held = arrays.clamp(sizes, self.most, self.cap)
        return arrays.clamp(data, -held, held) * (self.most / held)

    def describe(self) -> Union[List[float], Dict[str, Any]]:
        """As solver files and configs keep it."""
        if self.quantile == 0:
            return [self.least, self.most]
        return {"range": [self.least, self.most], "quantile": self.quantile, "cap": self.cap}

    def __str__(self) -> str:
        if self.quantile == 0:
            return f"data clipped to [{self.least:g}, {self.most:g}]"
        return (f"data clipped at its {self.quantile:g} quantile, from {self.most:g} to "
                f"{self.cap:g}, and scaled to {self.most:g}")


def _numbers(values: Any, count: int, given: Any) -> List[float]:
    good = isinstance(values, (list, tuple)) and len(values) == count and all(
        isinstance(value, Real) and not isinstance(value, bool) for value in values)
    if not good:
        raise Error(f"clip is {_FORMS}, found {given!r}")
    return [float(value) for value in values]
