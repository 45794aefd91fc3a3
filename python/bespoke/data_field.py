"""What a network predicts, as predictions of the data in NumPy's float64."""

from __future__ import annotations

import sys
from typing import Any, Generator, NamedTuple, Optional

import numpy as np

from bespoke.arrays import NumPyArrays, arrays_of
from bespoke.clip import Clip
from bespoke.errors import Error
from bespoke.plain_core import Affine, data_from, parse_prediction, safe_time
from bespoke.schedule import PlainSchedule
from bespoke.stepwise import Wanted

_MARGIN = 1e-3  # how near to pure noise or data a network's output is trusted


class DataField(NamedTuple):
    """From a network's outputs to data predictions, on its own path."""

    schedule: PlainSchedule
    prediction: str
    clip: Optional[Clip] = None
    sign: float = 1.0  # -1 for networks on flow paths that output dx / d sigma

    @classmethod
    def of(cls, schedule: Any, prediction: str, clip: Optional[Clip] = None,
           sign: float = 1.0) -> "DataField":
        """From what users give."""
        plain = PlainSchedule(schedule)
        if plain.source_std != 1:
            raise Error(f"samples on the path {plain.name} start from noise of deviation "
                        f"{plain.source_std:g}; wrap the field so that they start from 1")
        return cls(plain, parse_prediction(prediction), clip, sign)

    def time(self, t: float) -> float:
        """t, or a hair inside where the output determines the data."""
        return safe_time(self.prediction, self.schedule, t, _MARGIN)

    def factors(self, t: float) -> Affine:
        """D = state x + output f, at a time that time() gives."""
        state, output = data_from(self.prediction, self.schedule.point(t))
        return Affine(state, self.sign * output)

    def data(self, t: float, x: np.ndarray, output: np.ndarray) -> np.ndarray:
        """The data prediction, clipped where it is to be."""
        of_state, of_output = self.factors(t)
        found = of_output * output if of_state == 0 else of_state * x + of_output * output
        if self.clip is None or not np.isfinite(found).all():
            return found
        return self.clip.on(NumPyArrays(), found)


class Conversation:
    """A lesson or a run of a Learner, asked and told step by step."""

    def __init__(self, lesson: Generator[Wanted, np.ndarray, np.ndarray]) -> None:
        self._lesson = lesson
        self.wanted: Optional[Wanted] = next(lesson)
        self.samples: Optional[np.ndarray] = None

    def tell(self, data: np.ndarray) -> np.ndarray:
        """The answer to what was wanted; gives the next state, at the end the samples."""
        try:
            self.wanted = self._lesson.send(data)
            return self.wanted.state
        except StopIteration as ended:
            self.wanted, self.samples = None, ended.value
            return ended.value


def to_numpy(x: Any, what: str = "noise, and what a model returns,") -> np.ndarray:
    """An array of NumPy, PyTorch or JAX in float64; `what` names it where it is refused."""
    arrays_of(x, what)
    return numbers_of(x)


def numbers_of(x: Any) -> np.ndarray:
    """The same of arrays of any type, such as masks of whole numbers, and of lists."""
    if hasattr(x, "detach"):
        x = x.detach().to("cpu").double().numpy()
    return np.asarray(x, dtype=np.float64)


def like(x: np.ndarray, example: Any) -> Any:
    """In the library, type and on the device of an example."""
    if hasattr(example, "detach"):
        torch = sys.modules["torch"]
        return torch.from_numpy(np.ascontiguousarray(x)).to(dtype=example.dtype,
                                                            device=example.device)
    if isinstance(example, np.ndarray):
        return x.astype(example.dtype)
    return sys.modules["jax"].numpy.asarray(x, dtype=example.dtype)


def usual_peak(samples: np.ndarray) -> float:
    """The peak-to-peak range to give PSNR for: 2 of images, eight deviations of latents."""
    if np.abs(samples).max() <= 1.5:
        return 2.0
    return float(f"{8 * samples.std():.2g}")
