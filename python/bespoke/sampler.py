"""A sampler for any callable that learns its solver from the first samples it draws."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from bespoke import _core
from bespoke.clip import Clip, ClipLike
from bespoke.data_field import Conversation, DataField, like, to_numpy, usual_peak
from bespoke.errors import Error
from bespoke.learning import (MOST_SAMPLES, REFERENCE, Learner, Learnt, Quality, Rounding,
                              checked_steps, velocity_rows)
from bespoke.solver import Solver
from bespoke.structure import Structure

Say = Union[None, bool, Callable[[str], None]]


def told(say: Say) -> Callable[[str], None]:
    """Where lines go: to a function, nowhere (False), or to standard error."""
    if callable(say):
        return say
    if say is False:
        return lambda line: None
    return lambda line: print(f"bespoke: {line}", file=sys.stderr)


def nearest(steps: Sequence[int], wanted: int) -> int:
    """Of some numbers of evaluations, the smaller where two are as near."""
    return min(steps, key=lambda nfe: (abs(nfe - wanted), nfe))


def counted(steps: Sequence[int]) -> str:
    """Numbers of steps as people write them."""
    names = [str(nfe) for nfe in steps]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def solver_of(learnt: Learnt, field: DataField, quality: Quality, name: str = "learnt",
              guidance: float = 0.0) -> Solver:
    """What was learnt, as a solver of velocities."""
    conversion = _core.Conversion("data", _core.Schedule(field.schedule.describe()), 2.0 ** -52)

    def velocity(t: float) -> Tuple[float, float]:
        _, _, states, outputs = conversion.velocity([t])
        return states[0], outputs[0]
    a, b = velocity_rows(learnt, velocity)
    provenance = {"made by": f"bespoke-solvers {_core.__version__}", "method": "learnt",
                  "samples": learnt.samples, "psnr": quality.decibels, "psnr error": quality.error,
                  "psnr of": "samples not seen" if quality.measured else "parts left out"}
    return Solver.of(learnt.times, a, b, name=name, schedule=field.schedule.describe(),
                     prediction=field.prediction, guidance=guidance, provenance=provenance,
                     clip=field.clip)


def lesson_line(learner: Learner, evaluations: int) -> str:
    """What is being done, before a lesson."""
    what = "to learn" if not learner.learnt else "to learn more about"
    steps = counted(learner.steps)
    return (f"drawing with {evaluations} evaluations {what} {steps}-step sampling; "
            f"later ones take {steps}")


def learnt_line(learner: Learner, peak: float, guided: bool = False) -> str:
    """What came of it."""
    parts = [f"{nfe} steps: {learnt.quality(peak, guided)}" for nfe, learnt in sorted(
        learner.learnt.items())]
    end = "goes on learning" if learner.wants_more else "learnt"
    return f"{end}; {', '.join(parts)}, for a range of {peak:g}"


class Sampler:
    """Draws samples of field(t, x); the first call learns how in few evaluations.

        sampler = bespoke.Sampler(velocity, steps=8)
        first = sampler(noise)    # by many evaluations, from which it learns
        later = sampler(noise)    # by 8

    field        any callable: times t [count], 0 at the noise and 1 at the data, and states x
                 [count, ...]; what `prediction` says, of the same shape.
    schedule     the model's path, as of bespoke.fit.
    steps        evaluations of later calls; several are all learnt from the same samples.
    prediction   velocity, noise, data, v or edm.
    clip         what the model's own sampler does to data predictions, as of bespoke.fit.
    times        "free", "integer:LEVELS" or "bf16": how the network's times are rounded.
    reference    evaluations of the samples that it learns from.
    samples      at most so many to learn from; it ends sooner where more gain nothing.
    peak         the peak-to-peak range of the data, for PSNR.
    say          where it says what it does: a function, False, or standard error.

    Samples of another shape are learnt anew. Call relearn() where the field has changed: other
    weights, other guidance.
    """

    def __init__(self, field: Callable[..., Any], schedule: Any = "fm-ot",
                 steps: Union[int, Sequence[int]] = 8, *, prediction: str = "velocity",
                 clip: ClipLike = None, times: str = "free", reference: int = REFERENCE,
                 samples: int = MOST_SAMPLES, peak: Optional[float] = None,
                 say: Say = None) -> None:
        if not callable(field):
            raise Error(f"field must be a callable u(t, x), found {type(field).__name__}")
        self._call = field
        self._field = DataField.of(schedule, prediction, Clip.of(clip))
        self._steps = checked_steps(steps)
        self._options: Dict[str, Any] = {"rounding": Rounding(times), "reference": reference,
                                         "samples": samples}
        self._make_learner()  # says now what is wrong with them
        self._peak = peak
        self._say = told(say)
        self._learners: Dict[Tuple[int, ...], Learner] = {}
        self._peaks: Dict[Tuple[int, ...], float] = {}
        self._latest: Optional[Tuple[int, ...]] = None
        self.evaluations = 0  # of the field so far, in single samples

    def __call__(self, noise: Any, steps: Optional[int] = None, **conditions: Any) -> Any:
        """Draws samples from standard normal noise [count, ...], in its library, type and device.

        `conditions` are handed to the field as they are. Noise of several arrays, a dict or a
        tuple, gives samples of as many.
        """
        structure = Structure.of(noise, "noise")
        if structure is not None:
            call = structure.on_joined(self._call, "field")
            return structure.split(self._drawn(call, structure.joined(noise, "noise"), steps,
                                               conditions))
        return self._drawn(self._call, noise, steps, conditions)

    def _drawn(self, call: Callable[..., Any], noise: Any, steps: Optional[int],
               conditions: Dict[str, Any]) -> Any:
        start = to_numpy(noise)
        shape = tuple(start.shape[1:])
        learner = self._learners.get(shape) or self._make_learner()
        if learner.wants_more:
            self._say(lesson_line(learner, len(learner.times())))
            samples = self._run(call, learner.lesson(start), noise, conditions)
            self._learners[shape], self._latest = learner, shape
            self._peaks.setdefault(shape, self._peak or usual_peak(samples))
            self._say(learnt_line(learner, self._peaks[shape]))
            return like(samples, noise)
        self._latest = shape
        return like(self._run(call, learner.sample(self._chosen(steps), start), noise,
                              conditions), noise)

    def relearn(self) -> None:
        """Forgets all that was learnt; the next call learns."""
        self._learners, self._peaks, self._latest = {}, {}, None

    def quality(self, steps: Optional[int] = None) -> Quality:
        """How near later samples are to those of many evaluations."""
        learner, shape = self._known()
        return learner.learnt[self._chosen(steps)].quality(self._peaks[shape])

    def solver(self, steps: Optional[int] = None) -> Solver:
        """What was learnt, for Solver.sample, exports and files."""
        learner, _ = self._known()
        return solver_of(learner.learnt[self._chosen(steps)], self._field, self.quality(steps))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes what was learnt to one *.solver.json."""
        solvers: List[Solver] = [self.solver(nfe) for nfe in self._steps]
        files = [solver.file for solver in solvers]
        _core.SolverFile.joined("learnt", files).write(os.fspath(path))

    def _make_learner(self) -> Learner:
        return Learner(self._field.schedule, self._steps, **self._options)

    def _known(self) -> Tuple[Learner, Tuple[int, ...]]:
        if self._latest is None:
            raise Error("nothing is learnt yet; draw samples first")
        return self._learners[self._latest], self._latest

    def _chosen(self, steps: Optional[int]) -> int:
        if steps is None:
            return self._steps[-1]
        chosen = nearest(self._steps, steps)
        if chosen != steps:
            self._say(f"{steps} steps are not learnt; taking {chosen}")
        return chosen

    def _run(self, call: Callable[..., Any], lesson: Any, noise: Any,
             conditions: Dict[str, Any]) -> np.ndarray:
        conversation = Conversation(lesson)
        with _without_gradients(noise):
            while conversation.wanted is not None:
                time = self._field.time(conversation.wanted.time)
                state = like(conversation.wanted.state, noise)
                own = self._field.schedule.trained_time(time)
                times = like(np.full(len(noise), own), noise)
                output = call(times, state * 1, **conditions)  # a copy: fields may write it
                if tuple(getattr(output, "shape", ())) != tuple(state.shape):
                    raise Error(f"field returned {_kind(output)} for states of shape "
                                f"{tuple(state.shape)}; return one prediction per state")
                self.evaluations += len(noise)
                conversation.tell(self._field.data(time, to_numpy(state), to_numpy(output)))
        assert conversation.samples is not None
        return conversation.samples


def _kind(output: Any) -> str:
    shape = getattr(output, "shape", None)
    return type(output).__name__ if shape is None else f"an array of shape {tuple(shape)}"


def _without_gradients(noise: Any) -> Any:
    if hasattr(noise, "detach"):
        return sys.modules["torch"].no_grad()
    return contextlib.nullcontext()
