"""Solvers: times, coefficients and one update rule, and the file they are kept in."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from bespoke import _core
from bespoke.checks import whole_number
from bespoke.clip import Clip, ClipLike
from bespoke.errors import Error
from bespoke.field import (Callback, Field, GuidanceLike, ScheduleLike, guidance_of, schedule_of)
from bespoke.plots import plot_solver
from bespoke.sampling import run_solver

Schedule = _core.Schedule
PathLike = Union[str, "os.PathLike[str]"]

# Machine epsilons of what networks compute in.
PRECISIONS = {"float64": 2.0 ** -52, "float32": 2.0 ** -23, "float16": 2.0 ** -10,
              "bfloat16": 2.0 ** -7}
_MOST_EVALUATIONS = 10000  # of a solver


class ScheduleEntry(NamedTuple):
    """A schedule that can be named."""

    name: str
    description: str
    defaults: Dict[str, float]


class CatalogueEntry(NamedTuple):
    """A method of the catalogue."""

    name: str
    family: str
    description: str
    order: int
    evaluations_per_step: int
    default_grid: str


class GridEntry(NamedTuple):
    """A rule for where steps begin and end."""

    name: str
    description: str
    options: List[str]


def schedules() -> List[ScheduleEntry]:
    """Every schedule by name, with its parameters."""
    return [ScheduleEntry(*row) for row in _core.schedules()]


def catalogue() -> List[CatalogueEntry]:
    """Every method by name."""
    return [CatalogueEntry(*row) for row in _core.catalogue()]


def grids() -> List[GridEntry]:
    """Every grid by name, with its options."""
    return [GridEntry(*row) for row in _core.grids()]


class LoweredSolver(NamedTuple):
    """A solver on what a program has at hand: x_{i+1} = a_i x_0 + sum_{j <= i} b_ij f_j.

    f_j is the network's raw output at times[j], or in the space of sigmas
    d_j = (y_j - D(y_j, sigmas[j])) / sigmas[j]. x_0 is start_scale times the noise.
    """

    times: List[float]
    sigmas: List[float]
    a: List[float]
    b: List[List[float]]
    start_scale: float

    @property
    def nfe(self) -> int:
        """The number of evaluations per sample."""
        return len(self.a)


class Solver:
    """A solver of a fixed number of evaluations, and what it is for.

        x_{i+1} = a_i x_0 + sum_{j <= i} b_ij u(t_j, x_j),   x_0 = start_scale * noise

    Get one with Solver.load, Solver.named, or from fit and distill.
    """

    def __init__(self, file: "_core.SolverFile") -> None:
        self._file = file  # of one solver

    @classmethod
    def load(cls, path: PathLike, nfe: Optional[int] = None) -> "Solver":
        """Reads and checks a *.solver.json: its solver of `nfe` evaluations, or the only one."""
        return cls(_core.SolverFile.read(os.fspath(path)).only(_asked(nfe)))

    @classmethod
    def load_all(cls, path: PathLike) -> List["Solver"]:
        """All solvers of a *.solver.json, by rising number of evaluations."""
        file = _core.SolverFile.read(os.fspath(path))
        return [cls(file.only(nfe)) for nfe in file.nfes]

    @classmethod
    def parse(cls, text: str, nfe: Optional[int] = None) -> "Solver":
        """Reads and checks the text of a *.solver.json, as load does a file."""
        return cls(_core.SolverFile.parse(text, "the text").only(_asked(nfe)))

    @classmethod
    def named(cls, name: str, nfe: int = 8, *, schedule: ScheduleLike = "fm-ot",
              prediction: str = "velocity", clip: ClipLike = None) -> "Solver":
        """A solver of the catalogue by its name, NAME[/GRID][@SCHEDULE], such as "dpm++2m/karras"."""
        if not isinstance(name, str):
            raise Error("name must be that of a solver of the catalogue, such as dpm++2m/karras, "
                        f"found {name!r}")
        count = whole_number(nfe, "nfe", 1, _MOST_EVALUATIONS)
        return cls(_clipped(_core.named_solver(name, count, schedule_of(schedule), prediction,
                                               guidance_of(0.0)), clip))

    @classmethod
    def of(cls, times: List[float], a: List[float], b: List[List[float]], *,
           start_scale: float = 1.0, name: str = "solver", schedule: ScheduleLike = "fm-ot",
           prediction: str = "velocity", guidance: GuidanceLike = 0.0,
           provenance: Optional[Mapping[str, Any]] = None, clip: ClipLike = None) -> "Solver":
        """A solver of your own numbers."""
        return cls.made(name, _core.NsSolver(times, a, b, start_scale), prediction,
                        schedule_of(schedule), guidance_of(guidance), dict(provenance or {}), clip)

    @classmethod
    def from_times(cls, method: str, *, times: Optional[Sequence[float]] = None,
                   sigmas: Optional[Sequence[float]] = None,
                   timesteps: Optional[Sequence[float]] = None, name: str = "imported",
                   schedule: ScheduleLike = "fm-ot", prediction: str = "velocity") -> "Solver":
        """A solver of the catalogue on times that others found.

        They are given as `times` (0 noise to 1 data), as falling `sigmas` (sigma / alpha, or sigma
        on a flow path) or as falling `timesteps` (indices of noise levels).
        """
        return cls._imported(name, schedule, prediction, times=times, sigmas=sigmas,
                             timesteps=timesteps, method=method)

    @classmethod
    def from_weights(cls, weights: Sequence[Sequence[float]], over: str, *,
                     times: Optional[Sequence[float]] = None,
                     sigmas: Optional[Sequence[float]] = None,
                     timesteps: Optional[Sequence[float]] = None, name: str = "imported",
                     schedule: ScheduleLike = "fm-ot", prediction: str = "velocity") -> "Solver":
        """A solver whose every step weighs the predictions so far into one.

        Row i weighs the last so many predictions, the newest last. `over` says which: "noise" and
        "data" make DDIM's step with it, "velocity" Euler's, "slope" Euler's in sigma.
        """
        return cls._imported(name, schedule, prediction, times=times, sigmas=sigmas,
                             timesteps=timesteps, over=over, weights=[list(w) for w in weights])

    @classmethod
    def from_steps(cls, c: Sequence[Sequence[float]], d: Sequence[Sequence[float]],
                   over: str = "velocity", *, space: str = "path",
                   times: Optional[Sequence[float]] = None,
                   sigmas: Optional[Sequence[float]] = None,
                   timesteps: Optional[Sequence[float]] = None,
                   start_scale: Optional[float] = None, name: str = "imported",
                   schedule: ScheduleLike = "fm-ot", prediction: str = "velocity") -> "Solver":
        """A solver with the steps x_{i+1} = sum_j c_ij x_j + d_ij f_j.

        f_j is what `over` says: a prediction, or "slope". In the space "sigma" the states are
        x / alpha, as tools that count in sigmas have them.
        """
        return cls._imported(name, schedule, prediction, times=times, sigmas=sigmas,
                             timesteps=timesteps, over=over, space=space, start_scale=start_scale,
                             c=[list(row) for row in c], d=[list(row) for row in d])

    @classmethod
    def imported(cls, path: PathLike, nfe: Optional[int] = None) -> "Solver":
        """Reads a file that describes a third-party solver, as `bespoke import` reads it."""
        return cls(_core.read_imported(os.fspath(path)).only(_asked(nfe)))

    @classmethod
    def _imported(cls, name: str, schedule: ScheduleLike, prediction: str,
                  **numbers: Any) -> "Solver":
        given = {key: value for key, value in numbers.items() if value is not None}
        for key in ("times", "sigmas", "timesteps"):
            if key in given:
                given[key] = [float(value) for value in given[key]]
        description = {"name": name, "schedule": schedule_of(schedule).describe(),
                       "prediction": prediction, **given}
        return cls(_core.import_solvers(description, name))

    @classmethod
    def made(cls, name: str, solver: "_core.NsSolver", prediction: str, schedule: Schedule,
             guidance: "_core.Guidance", provenance: Dict[str, Any],
             clip: ClipLike = None) -> "Solver":
        """A solver from the numbers of the compiled module."""
        return cls(_clipped(_core.SolverFile(name, solver, _core.parse_prediction(prediction),
                                             schedule, guidance, provenance), clip))

    def save(self, path: PathLike) -> None:
        """Writes a *.solver.json, atomically. Every number reads back exactly."""
        self._file.write(os.fspath(path))

    def to_json(self) -> str:
        """The text of the file."""
        return self._file.text()

    @property
    def name(self) -> str:
        """The solver's name."""
        return self._file.name

    @property
    def nfe(self) -> int:
        """The number of evaluations per sample."""
        return self._file.solver.nfe

    @property
    def times(self) -> List[float]:
        """The times t_0 ... t_n: where the model is evaluated, and the end."""
        return self._file.solver.times

    @property
    def a(self) -> List[float]:
        """The coefficients a_0 ... a_{n-1} of x_0."""
        return self._file.solver.a

    @property
    def b(self) -> List[List[float]]:
        """The coefficients of the velocities: row i has b_i0 ... b_ii."""
        return self._file.solver.b

    @property
    def start_scale(self) -> float:
        """The factor on the noise that makes it x_0."""
        return self._file.solver.start_scale

    @property
    def prediction(self) -> str:
        """What the model that the solver is for predicts."""
        return self._file.prediction

    @property
    def schedule(self) -> Schedule:
        """The path that the solver runs on."""
        return self._file.schedule

    @property
    def guidance(self) -> Any:
        """The guidance weight w that the solver is for, or a dict; guidance_scale is 1 + w."""
        return self._file.guidance.describe()

    @property
    def time(self) -> Optional[Dict[str, Any]]:
        """How the network counts time and scales its input, where that is known."""
        return self._file.time

    @property
    def clip(self) -> Optional[Clip]:
        """What is done to every data prediction; None where nothing is."""
        return Clip.of(self._file.clip)

    @property
    def provenance(self) -> Dict[str, Any]:
        """Where the solver came from."""
        return self._file.provenance

    @property
    def file(self) -> "_core.SolverFile":
        """The file with this solver alone, as the compiled module has it."""
        return self._file

    @property
    def core(self) -> "_core.NsSolver":
        """The numbers, as the compiled module has them."""
        return self._file.solver

    def sample(self, field: Callback, noise: Any, *, prediction: Optional[str] = None,
               conditions: Optional[Mapping[str, Any]] = None, guidance: GuidanceLike = 0.0,
               unconditional: Optional[Callback] = None, batch: Optional[int] = None,
               on_step: Optional[Callable[[int, float, Any], None]] = None) -> Any:
        """Draws samples from noise [count, ...] in nfe evaluations of field(t, x).

        The field predicts what the solver is for, unless `prediction` says otherwise; its data
        predictions are clipped where the solver's are. `on_step` is told the step, the time reached
        and the state there. See fit for the other arguments.
        """
        made = Field(field, noise, prediction=prediction or self.prediction,
                     schedule=self.schedule, conditions=conditions, guidance=guidance,
                     unconditional=unconditional, batch=batch, clip=self.clip)
        tell = None if on_step is None else (
            lambda step, time, x: on_step(step, time, made.as_given(x)))
        run = run_solver(self.core, made, made.noise, range(int(made.noise.shape[0])), keep=False,
                         on_step=tell)
        return made.as_given(run.x[-1])

    def lower(self, prediction: Optional[str] = None, precision: str = "float32") -> LoweredSolver:
        """The same solver on a network's raw outputs: no schedule is needed to run it.

        A solver of a clipped model is on data predictions, which the caller clips.
        """
        if self.clip is not None and prediction not in (None, "data"):
            raise Error(f"solver {self.name} steps with {self.clip}, so it is lowered to data "
                        f"predictions alone, and prediction is {prediction!r}")
        kind = "data" if self.clip is not None else prediction or self.prediction
        return LoweredSolver(*_core.lower(self.core, kind, self.schedule, _epsilon(precision)))

    def lower_to_sigmas(self, precision: str = "float32") -> LoweredSolver:
        """The same solver in the space of sigmas, as k-diffusion and ComfyUI have it."""
        return LoweredSolver(*_core.lower_to_sigmas(self.core, self.schedule,
                                                    _epsilon(precision)))

    def plot(self, axes: Optional[Sequence[Any]] = None) -> Any:
        """Draws times and coefficients as a matplotlib figure; `axes` are two to draw into."""
        return plot_solver(self, axes)

    def __reduce__(self) -> Any:
        return Solver.parse, (self.to_json(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Solver) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return (f"<Solver {self.name}: {self.nfe} evaluations, {self.schedule.name} path, "
                f"{self.prediction} prediction>")


def _clipped(file: "_core.SolverFile", clip: ClipLike) -> "_core.SolverFile":
    found = Clip.of(clip)
    return file if found is None else file.with_clip(found.describe())


def _asked(nfe: Optional[int]) -> int:
    """The number of evaluations to take from a file, 0 for its only solver."""
    return 0 if nfe is None else whole_number(nfe, "nfe", 0, _MOST_EVALUATIONS)


def _epsilon(precision: str) -> float:
    if precision not in PRECISIONS:
        raise Error(f"precision must be one of {', '.join(PRECISIONS)}, found {precision!r}")
    return PRECISIONS[precision]
