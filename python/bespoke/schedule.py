"""Noise schedules in Python: x_t = alpha x_1 + sigma x_0, t = 0 at the noise, 1 at the data.

The exporter checks cards by them, and solvers run by them where the compiled module is not built.
"""

import bisect
import math
from typing import Any, Dict, List, NamedTuple

from bespoke import checks
from bespoke.errors import Error

DEFAULTS: Dict[str, Dict[str, Any]] = {
    "fm-ot": {},
    "cosine": {},
    "vp": {"B": 20, "b": 0.1},
    "edm": {"sigma_max": 80},
    "ddpm-linear": {"steps": 1000, "beta_start": 1e-4, "beta_end": 0.02},
    "ddpm-scaled-linear": {"steps": 1000, "beta_start": 0.00085, "beta_end": 0.012},
    "ddpm-cosine": {"steps": 1000, "offset": 0.008, "beta_max": 0.999},
}
NAMES = [*DEFAULTS, "table"]


def check_schedule(given):
    """The schedule as a card has it, from a dict or from text such as "vp:B=20,b=0.1"."""
    schedule = _from_text(given) if isinstance(given, str) else given
    checks.require(isinstance(schedule, dict) and "name" in schedule, "schedule",
                   f'must be a name or an object with a "name", found {given!r}')
    name = checks.choice(schedule["name"], NAMES, "schedule", "schedule")
    if name == "table":
        checks.keys(schedule, ["name", "alphas_cumprod"], [], "schedule table")
        return {"name": name, "alphas_cumprod": _check_alphas(schedule["alphas_cumprod"])}
    checks.keys(schedule, ["name"], list(DEFAULTS[name]), f"schedule {name}")
    parameters = {key: checks.number(value, f"schedule {name}: {key}")
                  for key, value in schedule.items() if key != "name"}
    _check_parameters(name, {**DEFAULTS[name], **parameters})
    return {"name": name, **parameters}


def alpha_sigma(schedule, t):
    """(alpha, sigma) of a checked schedule at our time t in [0, 1]."""
    name = schedule["name"]
    if name == "fm-ot":
        return t, 1 - t
    if name == "cosine":
        return math.sin(math.pi / 2 * t), math.sin(math.pi / 2 * (1 - t))
    p = {**DEFAULTS.get(name, {}), **schedule}
    if name == "edm":
        return 1.0, p["sigma_max"] * (1 - t)
    log_alpha = _vp_log_alpha(p, 1 - t) if name == "vp" else _table_log_alpha(_alphas(p), 1 - t)
    return math.exp(log_alpha), math.sqrt(-math.expm1(2 * log_alpha))


def _from_text(spec):
    if spec.startswith("table:"):
        return {"name": "table", "alphas_cumprod": _read_numbers(spec[len("table:"):])}
    name, options = checks.parse_spec(spec, "schedule")
    return {"name": name, **options}


def _read_numbers(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [float(word) for word in file.read().translate(
                str.maketrans("[],", "   ")).split()]
    except (OSError, ValueError) as error:
        raise ValueError(f"schedule: cannot read the alphas_cumprod of {path} ({error})") from error


def _check_alphas(values):
    checks.require(isinstance(values, (list, tuple)) and len(values) >= 2,
                   "schedule.alphas_cumprod", "must be a list of at least 2 numbers")
    previous = 1.0
    for i, value in enumerate(values):
        checks.number(value, f"schedule.alphas_cumprod[{i}]")
        checks.require(0 < value < previous, "schedule.alphas_cumprod",
                       "must fall strictly from below 1 to above 0 (index 0 = least noise), "
                       f"entry {i} is {value} after {previous}")
        previous = value
    return [float(value) for value in values]


def _check_parameters(name, p):
    where = f"schedule {name}"
    if name == "vp":
        checks.require(0 < p["b"] < p["B"], where,
                       f"needs 0 < b < B, found b = {p['b']}, B = {p['B']}")
    elif name == "edm":
        checks.require(p["sigma_max"] > 0, where,
                       f"sigma_max must be positive, found {p['sigma_max']}")
    elif "steps" in p:
        checks.whole_number(p["steps"], f"{where}: steps", 2, 1000000)
        _check_alphas(_alphas({"name": name, **p}))


def _alphas(p):
    """alphas_cumprod of a discrete schedule."""
    if p["name"] == "table":
        return p["alphas_cumprod"]
    products, product = [], 1.0
    for i in range(p["steps"]):
        product *= 1 - _beta(p, i)
        products.append(product)
    return products


def _beta(p, i):
    if p["name"] == "ddpm-cosine":
        def squared_cosine(s):
            return math.cos((s + p["offset"]) / (1 + p["offset"]) * math.pi / 2) ** 2
        ratio = squared_cosine((i + 1) / p["steps"]) / squared_cosine(i / p["steps"])
        return min(1 - ratio, p["beta_max"])
    power = 2 if p["name"] == "ddpm-scaled-linear" else 1
    first, last = p["beta_start"] ** (1 / power), p["beta_end"] ** (1 / power)
    return (first + (last - first) * i / (p["steps"] - 1)) ** power


def _vp_log_alpha(p, s):
    return -(s * s * (p["B"] - p["b"]) / 4 + s * p["b"] / 2)


def _table_log_alpha(alphas, s):
    """Linear between s = i / N and s = (i + 1) / N, and no noise at s = 0."""
    logs = [0.0, *(0.5 * math.log(alpha) for alpha in alphas)]
    position = len(alphas) * s
    index = min(int(position), len(alphas) - 1)
    return logs[index] + (position - index) * (logs[index + 1] - logs[index])


class Point(NamedTuple):
    """A schedule and its slopes at some time."""

    alpha: float
    sigma: float
    alpha_slope: float
    sigma_slope: float  # infinite where sigma leaves 0 as a root
    variance_rate: float  # sigma times its slope, finite even there

    @property
    def wronskian(self) -> float:
        """sigma alpha' - alpha sigma' > 0."""
        return self.sigma * self.alpha_slope - self.alpha * self.sigma_slope


class PlainSchedule:
    """The compiled module's Schedule, in Python."""

    def __init__(self, description: Any) -> None:
        if isinstance(description, PlainSchedule):
            description = description._card
        elif not isinstance(description, (str, dict)) and hasattr(description, "describe"):
            description = description.describe()
        self._base: Any = None
        if isinstance(description, dict) and description.get("name") == "preconditioned":
            self._card = self._preconditioned(description)
        else:
            if isinstance(description, dict) and float(description.get("steps", 0.5)).is_integer():
                description = {**description, "steps": int(description["steps"])}
            try:
                self._card = check_schedule(description)
            except ValueError as error:
                raise Error(str(error)) from None
        self.name: str = self._card["name"]
        self._values = {**DEFAULTS.get(self.name, {}), **self._card}
        self._logs: List[float] = []
        if self.name == "table" or "steps" in self._values:
            self._logs = [0.0, *(0.5 * math.log(alpha) for alpha in _alphas(self._values))]
        self._depths = [-log for log in self._logs]

    def _preconditioned(self, description: Dict[str, Any]) -> Dict[str, Any]:
        """The same alpha, and sigma_0 times the sigma of another schedule."""
        if set(description) != {"name", "base", "sigma_0"}:
            raise Error('schedule preconditioned: has the keys "base" and "sigma_0", found '
                        f"{', '.join(sorted(set(description) - {'name'}))}")
        scale = description["sigma_0"]
        if (isinstance(scale, bool) or not isinstance(scale, (int, float)) or not scale > 0
                or math.isinf(scale)):
            raise Error(f"sigma_0 must be positive and finite, found {scale!r}")
        self._base = PlainSchedule(description["base"])
        return dict(description)

    @property
    def source_std(self) -> float:
        """Standard deviation of the noise that samples start from."""
        if self._base is not None:
            return float(self._values["sigma_0"]) * self._base.source_std
        return float(self._values["sigma_max"]) if self.name == "edm" else 1.0

    def describe(self) -> Dict[str, Any]:
        """The name and parameters, as a solver file has them."""
        if self._base is not None:
            return {"name": self.name, "base": self._base.describe(),
                    "sigma_0": float(self._values["sigma_0"])}
        if self.name == "table":
            return {"name": self.name, "alphas_cumprod": list(self._card["alphas_cumprod"])}
        return {"name": self.name, **{key: float(value) for key, value in self._values.items()
                                      if key != "name"}}

    def point(self, t: float) -> Point:
        """alpha and sigma at t, and their slopes."""
        if self._base is not None:
            base, scale = self._base.point(t), float(self._values["sigma_0"])
            return Point(base.alpha, scale * base.sigma, base.alpha_slope,
                         scale * base.sigma_slope, scale * scale * base.variance_rate)
        if self.name == "fm-ot":
            return Point(t, 1 - t, 1.0, -1.0, t - 1)
        if self.name == "cosine":
            half = math.pi / 2
            alpha, sigma = alpha_sigma(self._values, t)
            slopes = half * math.cos(half * t), -half * math.cos(half * (1 - t))
            return Point(alpha, sigma, *slopes, sigma * slopes[1])
        if self.name == "edm":
            most = float(self._values["sigma_max"])
            return Point(1.0, most * (1 - t), 0.0, -most, -most * most * (1 - t))
        log_alpha, slope = self._log_alpha(t)
        alpha, variance = math.exp(log_alpha), -math.expm1(2 * log_alpha)
        sigma, rate = math.sqrt(variance), -alpha * alpha * slope
        return Point(alpha, sigma, alpha * slope, rate / sigma if sigma > 0 else -math.inf, rate)

    def alpha(self, t: float) -> float:
        """How much of the data is in the state."""
        return self.point(t).alpha

    def sigma(self, t: float) -> float:
        """How much of the noise is in the state."""
        return self.point(t).sigma

    def log_snr(self, t: float) -> float:
        """log(alpha / sigma)."""
        here = self.point(t)
        if here.sigma == 0:
            return math.inf
        return math.log(here.alpha) - math.log(here.sigma) if here.alpha > 0 else -math.inf

    def time_at_log_snr(self, log_snr: float) -> float:
        """The time with this log-SNR, clipped to [0, 1]."""
        if self._base is not None:
            return self._base.time_at_log_snr(log_snr + math.log(self._values["sigma_0"]))
        if self.name == "fm-ot":
            return 1 / (1 + math.exp(-log_snr)) if log_snr > -700 else 0.0
        if self.name == "cosine":
            if log_snr > 0:
                return 1 - math.atan(math.exp(-log_snr)) / (math.pi / 2)
            return math.atan(math.exp(log_snr)) / (math.pi / 2)
        if self.name == "edm":
            most = float(self._values["sigma_max"])
            return _clipped(1 - math.exp(-log_snr) / most) if log_snr > -700 else 0.0
        if log_snr == -math.inf:
            return 0.0
        depth = 0.5 * math.log1p(math.exp(-2 * abs(log_snr))) + max(-log_snr, 0.0)
        return _clipped(self._time_at_depth(depth))

    def _log_alpha(self, t: float) -> Any:
        """log alpha and its slope, of a path whose variance is kept."""
        s = 1 - t
        if self.name == "vp":
            most, least = self._values["B"], self._values["b"]
            return _vp_log_alpha(self._values, s), s * (most - least) / 2 + least / 2
        levels = len(self._logs) - 1
        index = min(max(int(math.floor(levels * s)), 0), levels - 1)
        slope = self._logs[index + 1] - self._logs[index]
        return self._logs[index] + (levels * s - index) * slope, -levels * slope

    def _time_at_depth(self, depth: float) -> float:
        """Where -log alpha is this."""
        if self.name == "vp":
            half, width = self._values["b"] / 2, self._values["B"] - self._values["b"]
            return 1 - 2 * depth / (half + math.sqrt(half * half + width * depth))
        levels = len(self._logs) - 1
        index = bisect.bisect_left(self._depths, depth, 1, levels) - 1
        slope = self._logs[index + 1] - self._logs[index]
        return 1 - (index + (-depth - self._logs[index]) / slope) / levels

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainSchedule) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Schedule({self.describe()!r})"


def _clipped(t: float) -> float:
    return min(1.0, max(0.0, t))
