"""What running a solver needs of the compiled module, in Python: files, paths, lowering.

Where bespoke._core is not built, this takes its place (bespoke/_core.py). The classes and functions
have the names and the answers of the compiled ones; finding solvers by fit and distill needs those.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from bespoke.card import PREDICTION_ALIASES, PREDICTIONS
from bespoke.checks import unique_keys
from bespoke.clip import Clip
from bespoke.errors import Error
from bespoke.files import write_text
from bespoke.schedule import DEFAULTS, PlainSchedule as Schedule, Point

FORMAT, VERSION = "bespoke-solver", 2
_EDM_DATA = 0.5  # the deviation of the data in EDM's scalings


def built_version() -> str:
    """The version of the package, from its metadata or the repository around it."""
    header = Path(__file__).resolve().parents[2] / "include/bespoke/version.h"
    if header.is_file():
        found = re.search(r'define BESPOKE_VERSION "([^"]+)"', header.read_text(encoding="utf-8"))
        if found:
            return found.group(1)
    try:
        from importlib.metadata import version
        return version("bespoke-solvers")
    except ImportError:
        return "0"


# Predictions

def predictions() -> List[str]:
    """What a network may predict."""
    return list(PREDICTIONS)


def parse_prediction(name: str) -> str:
    """The name, or the one that it is another for, if there is such a prediction."""
    name = PREDICTION_ALIASES.get(name, name)
    if name not in PREDICTIONS:
        raise Error(f"unknown prediction '{name}'; known are {', '.join(PREDICTIONS)}")
    return name


class Affine(NamedTuple):
    """state x + output f."""

    state: float
    output: float


def _edm_variance(p: Point) -> float:
    return p.sigma ** 2 + (p.alpha * _EDM_DATA) ** 2


def data_from(prediction: str, p: Point) -> Affine:
    """The data prediction from what the network predicts."""
    norm, q = p.alpha ** 2 + p.sigma ** 2, _edm_variance(p)
    if prediction == "velocity":
        return Affine(-p.sigma_slope / p.wronskian, p.sigma / p.wronskian)
    if prediction == "noise":
        return Affine(1 / p.alpha, -p.sigma / p.alpha)
    if prediction == "data":
        return Affine(0.0, 1.0)
    if prediction == "v":
        return Affine(p.alpha / norm, -p.sigma / norm)
    if prediction == "score":
        return Affine(1 / p.alpha, p.sigma ** 2 / p.alpha)
    return Affine(p.alpha * _EDM_DATA ** 2 / q, p.sigma * _EDM_DATA / math.sqrt(q))


def noise_from(prediction: str, p: Point) -> Affine:
    """The noise prediction from what the network predicts."""
    norm, q = p.alpha ** 2 + p.sigma ** 2, _edm_variance(p)
    if prediction == "velocity":
        return Affine(p.alpha_slope / p.wronskian, -p.alpha / p.wronskian)
    if prediction == "noise":
        return Affine(0.0, 1.0)
    if prediction == "data":
        return Affine(1 / p.sigma, -p.alpha / p.sigma)
    if prediction == "v":
        return Affine(p.sigma / norm, p.alpha / norm)
    if prediction == "score":
        return Affine(0.0, -p.sigma)
    return Affine(p.sigma / q, -p.alpha * _EDM_DATA / math.sqrt(q))


def velocity_from(prediction: str, p: Point) -> Affine:
    """The velocity from what the network predicts."""
    norm, q, w = p.alpha ** 2 + p.sigma ** 2, _edm_variance(p), p.wronskian
    if prediction == "velocity":
        return Affine(0.0, 1.0)
    if prediction == "noise":
        return Affine(p.alpha_slope / p.alpha, -w / p.alpha)
    if prediction == "data":
        return Affine(p.sigma_slope / p.sigma, w / p.sigma)
    if prediction == "score":
        return Affine(p.alpha_slope / p.alpha, w * p.sigma / p.alpha)
    along = p.alpha * p.alpha_slope
    if prediction == "v":
        return Affine((along + p.variance_rate) / norm, -w / norm)
    return Affine((along * _EDM_DATA ** 2 + p.variance_rate) / q, w * _EDM_DATA / math.sqrt(q))


def safe_margin(epsilon: float) -> float:
    """The least noise-to-signal ratio, or the inverse, that this precision resolves."""
    return math.sqrt(epsilon)


def safe_time(prediction: str, schedule: Schedule, t: float, margin: float) -> float:
    """t, or a time a hair inside where the output determines the data and the noise."""
    t = min(t, schedule.last_time)
    here = schedule.point(t)
    if prediction in ("noise", "score") and here.alpha < margin * here.sigma:
        return max(t, schedule.time_at_log_snr(math.log(margin)))
    if prediction in ("data", "score") and here.sigma < margin * here.alpha:
        return min(t, schedule.time_at_log_snr(-math.log(margin)))
    if prediction == "velocity" and math.isinf(here.sigma_slope):
        return min(t, schedule.time_at_log_snr(-math.log(margin)))
    return t


def safe_velocity_time(prediction: str, schedule: Schedule, t: float, margin: float) -> float:
    """The same where the velocity is wanted."""
    safe = safe_time(prediction, schedule, t, margin)
    if math.isinf(schedule.point(safe).sigma_slope):
        return min(safe, schedule.time_at_log_snr(-math.log(margin)))
    return safe


class Conversion:
    """What arrays are multiplied by to get velocities of a model."""

    def __init__(self, prediction: str, schedule: Schedule, epsilon: float) -> None:
        self._prediction = parse_prediction(prediction)
        self._schedule = schedule
        self._margin = safe_margin(epsilon)

    def velocity(self, times: Sequence[float]) -> Tuple[List[float], ...]:
        """Of each time: the time to call at, the state's scale there, and u's two factors."""
        rows = []
        for t in times:
            safe = safe_velocity_time(self._prediction, self._schedule, t, self._margin)
            rows.append((safe, 1.0, *velocity_from(self._prediction, self._schedule.point(safe))))
        return tuple(list(column) for column in zip(*rows))

    def data(self, times: Sequence[float]) -> Tuple[List[float], ...]:
        """Of each time: the time to call at, and the two factors of the data prediction."""
        rows = []
        for t in times:
            safe = safe_time(self._prediction, self._schedule, t, self._margin)
            rows.append((safe, *data_from(self._prediction, self._schedule.point(safe))))
        return tuple(list(column) for column in zip(*rows))


# Guidance

class Guidance:
    """The weight w of (1 + w) conditional - w unconditional: one, a range, or over time."""

    def __init__(self, weight: Any) -> None:
        self._points: List[Tuple[float, float]] = []
        self._range: Optional[Tuple[float, float]] = None
        self._interval = (0.0, 1.0)
        if isinstance(weight, str):
            self._read(weight)
        elif isinstance(weight, dict):
            self._take(weight)
        else:
            self._points = [(0.0, float(weight))]
        self._check()

    def at(self, t: float, sample: int) -> float:
        """The weight of a sample at a time."""
        if not self._interval[0] <= t <= self._interval[1]:
            return 0.0
        if self._range is not None:
            low, high = self._range
            return low + (high - low) * _even_number(sample)
        times, weights = zip(*self._points)
        return float(np.interp(t, times, weights))

    @property
    def is_zero(self) -> bool:
        """Whether there is none."""
        return self._range is None and all(w == 0 for _, w in self._points)

    def describe(self) -> Any:
        """As a solver file has it."""
        wide = self._interval == (0.0, 1.0)
        if self._range is not None:
            ends: Dict[str, Any] = {"from": self._range[0], "to": self._range[1]}
            return ends if wide else {**ends, "interval": list(self._interval)}
        if len(self._points) == 1 and wide:
            return self._points[0][1]
        return {"interval": list(self._interval), "points": [list(p) for p in self._points]}

    def _read(self, text: str) -> None:
        ends = re.fullmatch(r"(-?[^-].*?[^eE-]|-?[^-])-(-?[^-].*)", text)
        try:
            if ":" in text:
                pairs = [part.split(":") for part in text.split(",")]
                self._points = [(float(t), float(w)) for t, w in pairs]
            elif ends:
                self._range = float(ends.group(1)), float(ends.group(2))
            else:
                self._points = [(0.0, float(text))]
        except ValueError:
            raise Error(f"guidance is W, FROM-TO or t:W,t:W,..., found '{text}'") from None

    def _take(self, given: Dict[str, Any]) -> None:
        try:
            if "from" in given:
                self._range = float(given["from"]), float(given["to"])
            else:
                self._points = [(float(t), float(w)) for t, w in given["points"]]
            low, high = given.get("interval", (0.0, 1.0))
            self._interval = float(low), float(high)
        except (KeyError, TypeError, ValueError):
            raise Error("field.guidance must be a number, a range or points over time, found "
                        f"{given!r}") from None

    def _check(self) -> None:
        numbers = [*itertools.chain(*self._points), *(self._range or ()), *self._interval]
        times = [t for t, _ in self._points]
        rising = all(left < right for left, right in zip(times, times[1:]))
        inside = all(0 <= t <= 1 for t in times)
        ordered = 0 <= self._interval[0] < self._interval[1] <= 1
        ranged = self._range is None or self._range[0] < self._range[1]
        if not (all(map(math.isfinite, numbers)) and rising and inside and ordered and ranged):
            raise Error("guidance must be finite, its times rise from 0 to 1 and its ranges rise, "
                        f"found {self.describe()!r}")
        if len(self._points) == 1:
            self._points = [(0.0, self._points[0][1])]

    def __str__(self) -> str:
        return f"guidance {self.describe()}"


def _even_number(index: int) -> float:
    fraction = ((1 << 63) + index * 0x9E3779B97F4A7C15) & (2 ** 64 - 1)
    return (fraction >> 11) * 2.0 ** -53


# Solvers

class NsSolver:
    """x_{i+1} = a_i x_0 + sum_{j <= i} b_ij u_j, from start_scale times the noise."""

    def __init__(self, times: Sequence[float], a: Sequence[float], b: Sequence[Sequence[float]],
                 start_scale: float = 1.0) -> None:
        self.times = [float(t) for t in times]
        self.a = [float(value) for value in a]
        self.b = [[float(value) for value in row] for row in b]
        self.start_scale = float(start_scale)
        self.guided: List[int] = []  # solvers with built-in guidance need the compiled module
        self.c: List[List[float]] = []
        self._check()

    @property
    def nfe(self) -> int:
        """Evaluations."""
        return len(self.a)

    def _check(self) -> None:
        n = len(self.a)
        if n == 0:
            raise Error("the solver has no steps, a needs at least one entry")
        if len(self.times) != n + 1:
            raise Error(f"times has {len(self.times)} entries, {n} steps need {n + 1}")
        if len(self.b) != n:
            raise Error(f"b has {len(self.b)} rows, {n} steps need {n}")
        for i, row in enumerate(self.b):
            if len(row) != i + 1:
                raise Error(f"b[{i}] has {len(row)} entries, row {i} needs {i + 1}")
            if not all(map(math.isfinite, [self.a[i], *row])):
                raise Error(f"row {i} of a or b is not finite, every coefficient must be")
        for i, t in enumerate(self.times):
            if not 0 <= t <= 1:
                raise Error(f"times[{i}] is {t}, times run from 0 (noise) to 1 (data)")
            if i and t < self.times[i - 1]:
                raise Error(f"times fall from {self.times[i - 1]} to {t} at index {i}, they must "
                            "not decrease")
        if not math.isfinite(self.start_scale) or self.start_scale == 0:
            raise Error(f"start_scale is {self.start_scale}, it must be finite and not 0")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NsSolver) and (
            (self.times, self.a, self.b, self.start_scale)
            == (other.times, other.a, other.b, other.start_scale))

    __hash__ = None  # type: ignore[assignment]


class SolverFile:
    """A *.solver.json: solvers of one field, one for each number of evaluations."""

    def __init__(self, name: str, solver: NsSolver, prediction: str, schedule: Schedule,
                 guidance: Guidance, provenance: Dict[str, Any]) -> None:
        self.name = name
        self.prediction = parse_prediction(prediction)
        self.schedule = schedule
        self.guidance = guidance
        self.time: Optional[Dict[str, Any]] = None
        self.clip: Any = None  # as describe() says it
        self._common: Dict[str, Any] = {}
        self._filed = [(solver, dict(provenance))]

    @staticmethod
    def read(path: str) -> "SolverFile":
        """Reads and checks a file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Error(f"cannot read {path}: {error}") from None
        return SolverFile.parse(text, path)

    @staticmethod
    def parse(text: str, source: str) -> "SolverFile":
        """The same from its text."""
        try:
            document = json.loads(text, object_pairs_hook=unique_keys)
        except ValueError as error:
            raise Error(f"{source}: a solver file is one JSON object; {error}") from None
        try:
            return _read_document(document)
        except Error as error:
            raise Error(f"{source}: {error}") from None

    def write(self, path: str) -> None:
        """Writes it, atomically."""
        write_text(path, self.text())

    def text(self) -> str:
        """Of the file. Numbers read back exactly."""
        return json.dumps(self._document(), indent=2, ensure_ascii=False) + "\n"

    @property
    def nfes(self) -> List[int]:
        """The numbers of evaluations that there are solvers of."""
        return [solver.nfe for solver, _ in self._filed]

    def only(self, nfe: int) -> "SolverFile":
        """The file with that solver alone; 0 is the only one there is."""
        there = ", ".join(map(str, self.nfes))
        if nfe == 0 and len(self._filed) > 1:
            raise Error(f"{self.name} holds solvers of {there} evaluations; choose one of them")
        chosen = [filed for filed in self._filed if nfe in (0, filed[0].nfe)]
        if not chosen:
            raise Error(f"{self.name} has no solver of {nfe} evaluations; it has {there}")
        return self._holding(self.name, chosen)

    def with_clip(self, clip: Any) -> "SolverFile":
        """The same of a field whose data predictions are clipped so, or not (None)."""
        other = self._holding(self.name, self._filed)
        other.clip = clip
        return other

    @staticmethod
    def joined(name: str, files: Sequence["SolverFile"]) -> "SolverFile":
        """The solvers of some files of one field."""
        filed = [(solver, {**file._common, **own}) for file in files
                 for solver, own in file._filed]
        together = files[0]._holding(name, sorted(filed, key=lambda one: one[0].nfe))
        together._common = {}
        for left, right in zip(together.nfes, together.nfes[1:]):
            if left == right:
                raise Error(f"two solvers have {left} evaluations; keep one of them")
        return together

    @property
    def solver(self) -> NsSolver:
        """The first."""
        return self._filed[0][0]

    @property
    def provenance(self) -> Dict[str, Any]:
        """What is known of where it came from."""
        return {**self._common, **self._filed[0][1]}

    def _holding(self, name: str, filed: List[Tuple[NsSolver, Dict[str, Any]]]) -> "SolverFile":
        other = SolverFile(name, filed[0][0], self.prediction, self.schedule, self.guidance, {})
        other.time, other.clip = self.time, self.clip
        other._common, other._filed = dict(self._common), list(filed)
        return other

    def _document(self) -> Dict[str, Any]:
        field = {"prediction": self.prediction, "schedule": self.schedule.describe(),
                 "guidance": self.guidance.describe()}
        if self.time is not None:
            field["time"] = self.time
        if self.clip is not None:
            field["clip"] = self.clip
        solvers = []
        for solver, own in self._filed:
            entry: Dict[str, Any] = {"nfe": solver.nfe, "start_scale": solver.start_scale,
                                     "times": solver.times, "a": solver.a, "b": solver.b}
            solvers.append({**entry, "provenance": own} if own else entry)
        return {"format": FORMAT, "version": VERSION, "name": self.name, "field": field,
                "solvers": solvers, "provenance": self._common}


def _read_document(document: Any) -> SolverFile:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Error(f'not a solver file: "format" must be "{FORMAT}"')
    version = document.get("version")
    if isinstance(version, (int, float)) and version > VERSION:
        raise Error(f"written by a newer bespoke (file version {version}, this one reads up to "
                    f"{VERSION}); update bespoke")
    if version not in (1, VERSION) or isinstance(version, bool):
        raise Error(f"unknown file version {version!r}")
    single = version == 1
    own = {"nfe", "times", "a", "b", "start_scale"}
    _check_keys(document, {"format", "version", "name", "field"} | (
        own - {"start_scale"} if single else {"solvers"}),
        {"provenance"} | ({"start_scale"} if single else set()), "the file")
    entries = [document] if single else document["solvers"]
    if not isinstance(entries, list) or not entries:
        raise Error("solvers must be a list of solvers")
    filed = []
    for i, entry in enumerate(entries):
        if not single:
            _check_keys(entry, own - {"start_scale"},
                        {"start_scale", "guided", "c", "provenance"}, f"solvers[{i}]")
        filed.append((_read_solver(entry), {} if single else _object(entry, "provenance")))
    nfes = [solver.nfe for solver, _ in filed]
    if any(left >= right for left, right in zip(nfes, nfes[1:])):
        raise Error("solvers must be in rising order of nfe, each once, found "
                    f"{', '.join(map(str, nfes))}")
    field = _object(document, "field")
    _check_keys(field, {"prediction", "schedule"}, {"guidance", "time", "clip"}, "field")
    file = SolverFile(str(document["name"]), filed[0][0], field["prediction"],
                      Schedule(field["schedule"]), Guidance(field.get("guidance", 0.0)), {})
    file.time = field.get("time")
    clip = Clip.of(field.get("clip"))
    file.clip = None if clip is None else clip.describe()
    file._common, file._filed = _object(document, "provenance"), filed
    return file


def _object(holder: Dict[str, Any], key: str) -> Dict[str, Any]:
    value = holder.get(key, {})
    if not isinstance(value, dict):
        raise Error(f"{key} must be an object")
    return value


def _check_keys(given: Any, needed: set, optional: set, where: str) -> None:
    if not isinstance(given, dict):
        raise Error(f"{where} must be an object")
    for key in sorted(needed - set(given)):
        raise Error(f'{where}: key "{key}" is missing')
    for key in sorted(set(given) - needed - optional):
        raise Error(f'{where}: unknown key "{key}"')


def _read_solver(entry: Dict[str, Any]) -> NsSolver:
    if "guided" in entry or "c" in entry:
        raise Error("without its compiled module this package cannot take a solver with built-in "
                    "guidance (\"guided\" and \"c\"); run it with 'bespoke sample', or distil one "
                    "without --network-calls")
    rows = entry["b"] if isinstance(entry["b"], list) else [entry["b"]]
    for values in (entry["times"], entry["a"], *rows):
        if not isinstance(values, list) or not all(map(_is_number, values)):
            raise Error("times, a and the rows of b must be lists of numbers")
    solver = NsSolver(entry["times"], entry["a"], entry["b"], entry.get("start_scale", 1.0))
    if entry["nfe"] != solver.nfe:
        raise Error(f"nfe is {entry['nfe']}, and there are {solver.nfe} steps")
    return solver


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# Lowering

Lowered = Tuple[List[float], List[float], List[float], List[List[float]], float]


def is_flow(schedule: Schedule) -> bool:
    """Whether alpha + sigma = 1."""
    return all(abs(schedule.alpha(t) + schedule.sigma(t) - 1) <= 1e-12 for t in (0.25, 0.5, 0.75))


def tool_sigma(schedule: Schedule, t: float) -> float:
    """What other tools call sigma."""
    sigma, alpha = schedule.sigma(t), schedule.alpha(t)
    if is_flow(schedule):
        return sigma + 0.0
    return sigma / alpha if alpha > 0 else math.inf


def lower(solver: NsSolver, prediction: str, schedule: Schedule, epsilon: float) -> Lowered:
    """On raw outputs: (times, sigmas, a, b, start scale)."""
    parse_prediction(prediction)
    times = _safe_times(solver, prediction, schedule, epsilon)
    places = [(1.0, velocity_from(prediction, schedule.point(t))) for t in times[:-1]]
    a, b = _rewritten(solver, [*places, (1.0, Affine(0.0, 0.0))])
    return times, [tool_sigma(schedule, t) for t in times], a, b, solver.start_scale


def lower_to_sigmas(solver: NsSolver, schedule: Schedule, epsilon: float) -> Lowered:
    """On d = (y - D(y, sigma)) / sigma, in the space of sigmas."""
    flow = is_flow(schedule)
    times = _safe_times(solver, "data", schedule, epsilon)
    places = []
    for t in times[:-1]:
        here = schedule.point(t)
        if flow:
            places.append((1.0, Affine(0.0, -here.alpha_slope)))
        elif here.alpha == 0:
            raise Error(f"the solver evaluates the model at t = {t}, where alpha = 0 and states "
                        "x / alpha are infinite; take one that begins later, for instance on the "
                        "grid lambda-range")
        else:
            places.append((here.alpha, velocity_from("noise", here)))
    end = 1.0 if flow else schedule.alpha(times[-1])
    a, b = _rewritten(solver, [*places, (end, Affine(0.0, 0.0))])
    scale = solver.start_scale * schedule.source_std / places[0][0]
    return times, [tool_sigma(schedule, t) for t in times], a, b, scale


def _safe_times(solver: NsSolver, prediction: str, schedule: Schedule,
                epsilon: float) -> List[float]:
    margin = safe_margin(epsilon)
    return [*(safe_velocity_time(prediction, schedule, t, margin) for t in solver.times[:-1]),
            solver.times[-1]]


def _rewritten(solver: NsSolver, places: List[Tuple[float, Affine]]
               ) -> Tuple[List[float], List[List[float]]]:
    """With x_j = s_j y_j and u_j = p_j x_j + q_j f_j the update rule is one on y and f."""
    a: List[float] = []
    b: List[List[float]] = []
    for i in range(solver.nfe):
        next_scale = places[i + 1][0]
        start, row = solver.a[i] * places[0][0] / next_scale, [0.0] * (i + 1)
        for j in range(i + 1):
            scale, velocity = places[j]
            factor = solver.b[i][j] / next_scale
            of_state = factor * velocity.state * scale
            row[j] += factor * velocity.output
            # The state there is itself a combination of the start and earlier outputs.
            start += of_state * (a[j - 1] if j else 1.0)
            for m in range(j):
                row[m] += of_state * b[j - 1][m]
        a.append(start)
        b.append(row)
    return a, b


# Small things

def normal_noise(seed: int, first: int, count: int, size: int) -> np.ndarray:
    """Standard normal numbers [count, size] that the seed and a sample's number decide."""
    if seed < 0 or first < 0:
        raise Error(f"seed and first must not be negative, found {seed} and {first}")
    pairs = (size + 1) // 2
    samples = np.arange(first, first + count, dtype=np.uint64)[:, None]
    blocks = np.arange(pairs, dtype=np.uint64)[None, :]
    low = np.uint64(0xFFFFFFFF)
    shape = (count, pairs)
    words = [np.broadcast_to(part, shape).copy() for part in (
        blocks, samples & low, samples >> np.uint64(32), np.zeros((1, 1), np.uint64))]
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        left, right = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [(right >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]), right & low,
                 (left >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]), left & low]
        keys = [keys[0] + 0x9E3779B9 & 0xFFFFFFFF, keys[1] + 0xBB67AE85 & 0xFFFFFFFF]

    def unit(high: np.ndarray, rest: np.ndarray) -> np.ndarray:
        bits = (high << np.uint64(21)) ^ (rest >> np.uint64(11))
        return (bits.astype(np.float64) + 0.5) * 2.0 ** -53
    radius = np.sqrt(-2 * np.log(unit(words[0], words[1])))
    angle = 2 * math.pi * unit(words[2], words[3])
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return both.reshape(count, 2 * pairs)[:, :size]


def schedules() -> List[Tuple[str, str, Dict[str, float]]]:
    """Every schedule by name, with its parameters."""
    return [(name, "", {key: float(value) for key, value in defaults.items()})
            for name, defaults in DEFAULTS.items()]


# What only the compiled module has, and for what.
_COMPILED = {
    "distill": "finding solvers", "DistillOptions": "finding solvers",
    "plan_calls": "finding solvers", "plain_features": "finding solvers",
    "measure": "finding solvers", "usual_tolerance": "finding solvers",
    "Field": "finding and comparing solvers", "Samples": "finding and comparing solvers",
    "Trajectories": "finding and comparing solvers",
    "best_of_catalogue": "the catalogue of solvers",
    "named_solver": "the catalogue of solvers", "catalogue": "the catalogue of solvers",
    "grids": "the catalogue of grids", "import_solvers": "importing solvers",
    "read_imported": "importing solvers", "c_header": "exporting solvers",
    "markdown_text": "exporting solvers", "latex_text": "exporting solvers",
    "sigmas_text": "exporting solvers", "diffusers_config_text": "exporting solvers",
    "psnr_error": "comparing solvers", "mean_psnr": "comparing solvers", "mean_snr": "comparing solvers",
    "quantile": "comparing solvers",
}


def __getattr__(name: str) -> Any:
    if name in _COMPILED:
        raise Error(f"{_COMPILED[name]} needs the compiled module bespoke._core, which is not "
                    "built here; install a C++ compiler and run 'pip install' again (running solvers and "
                    "learning them need neither)")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
