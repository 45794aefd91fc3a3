"""Noise schedules in Python: x_t = alpha x_1 + sigma x_0, t = 0 at the noise, 1 at the data.

The exporter checks cards by them, and solvers run by them where the compiled module is not built.
"""

import math
from typing import Any, Dict, Tuple

from bespoke import checks, paths
from bespoke.errors import Error
from bespoke.paths import Point

_ZERO_SNR = "zero_terminal_snr"
DEFAULTS: Dict[str, Dict[str, Any]] = {
    "fm-ot": {},
    "cosine": {},
    "vp": {"B": 20, "b": 0.1},
    "edm": {"sigma_max": 80, "sigma_min": 0},
    "ve": {"sigma_min": 0.01, "sigma_max": 50},
    "ve-power": {"sigma": 25},
    "ddpm-linear": {"steps": 1000, "beta_start": 1e-4, "beta_end": 0.02, _ZERO_SNR: 0},
    "ddpm-scaled-linear": {"steps": 1000, "beta_start": 0.00085, "beta_end": 0.012, _ZERO_SNR: 0},
    "ddpm-cosine": {"steps": 1000, "offset": 0.008, "beta_min": 0, "beta_max": 0.999, _ZERO_SNR: 0},
}
NAMES = [*DEFAULTS, "table"]
_ALIASES = {"ddpm-quadratic": "ddpm-scaled-linear"}
# What is 0 unless given is left out of descriptions, as files written before there was such a
# parameter do not have it.
_EXTRA = ("sigma_min", "beta_min", _ZERO_SNR)
_PART = {"start": 0.0, "end": 1.0, "denoise": False}


def check_schedule(given):
    """The schedule as a card has it, from a dict or from text such as "vp:B=20,b=0.1"."""
    schedule = _from_text(given) if isinstance(given, str) else given
    checks.require(isinstance(schedule, dict) and "name" in schedule, "schedule",
                   f'must be a name or an object with a "name", found {given!r}')
    name = schedule["name"]
    name = checks.choice(_ALIASES.get(name, name), NAMES, "schedule", "schedule")
    part = _check_part({key: schedule[key] for key in _PART if key in schedule}, name)
    whole = {**{key: value for key, value in schedule.items() if key not in _PART}, "name": name}
    whole = _check_table(whole) if name == "table" else _check_named(whole, name)
    card = {**whole, **part}
    if part.get("denoise"):
        checks.require(path_of({**whole, **part, "denoise": False}).point(1.0).sigma > 0,
                       f"schedule {name}", "the path ends at the data, where nothing is left to "
                       'denoise; leave out "denoise", or give an "end" before 1')
    return card


def alpha_sigma(schedule, t):
    """(alpha, sigma) of a checked schedule at our time t in [0, 1]."""
    here = path_of(schedule).point(t)
    return here.alpha, here.sigma


def discrete_levels(schedule: Dict[str, Any]) -> int:
    """How many noise levels a checked schedule has; 0 where they are not discrete."""
    p = {**DEFAULTS.get(schedule["name"], {}), **schedule}
    return len(p["alphas_cumprod"]) if "alphas_cumprod" in p else int(p.get("steps", 0))


def path_of(schedule: Dict[str, Any]) -> Any:
    """The path (paths.py) of a checked schedule."""
    p = {**DEFAULTS.get(schedule["name"], {}), **_PART, **schedule}
    whole = _whole_path(p)
    if all(p[key] == value for key, value in _PART.items()):
        return whole
    return paths.Part(whole, p["start"], p["end"], bool(p["denoise"]))


def _whole_path(p: Dict[str, Any]) -> Any:
    makers = {"fm-ot": paths.FmOt, "cosine": paths.Cosine,
              "vp": lambda: paths.Vp(p["B"], p["b"]),
              "edm": lambda: paths.Edm(p["sigma_max"], p["sigma_min"]),
              "ve": lambda: paths.Ve(p["sigma_min"], p["sigma_max"]),
              "ve-power": lambda: paths.VePower(p["sigma"])}
    return makers[p["name"]]() if p["name"] in makers else paths.Table(_alphas(p))


def _from_text(spec):
    name, options = checks.parse_spec(spec, "schedule") if not spec.startswith("table:") else (
        "table", {"alphas_cumprod": _read_numbers(spec[len("table:"):])})
    if isinstance(options.get("denoise"), int):
        options["denoise"] = options["denoise"] != 0
    return {"name": name, **options}


def _read_numbers(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [float(word) for word in file.read().translate(
                str.maketrans("[],", "   ")).split()]
    except (OSError, ValueError) as error:
        raise ValueError(f"schedule: cannot read the alphas_cumprod of {path} ({error})") from error


def _check_part(part, name):
    where = f"schedule {name}"
    ends = {**_PART, **part}
    start, end = (checks.number(ends[key], f"{where}: {key}") for key in ("start", "end"))
    checks.require(0 <= start < end <= 1, where,
                   f"needs 0 <= start < end <= 1, found start = {start}, end = {end}")
    checks.require(isinstance(ends["denoise"], bool), f"{where}: denoise", "must be true or false")
    return {key: value for key, value in part.items() if value != _PART[key]}


def _check_table(table):
    """A table of alphas_cumprod, which betas are multiplied up to."""
    checks.keys(table, ["name"], ["alphas_cumprod", "betas", _ZERO_SNR], "schedule table")
    checks.require(("alphas_cumprod" in table) != ("betas" in table), "schedule table",
                   'needs either "alphas_cumprod" or "betas"')
    key = "betas" if "betas" in table else "alphas_cumprod"
    values = table[key]
    checks.require(isinstance(values, (list, tuple)), f"schedule.{key}",
                   "must be a list of numbers")
    values = [checks.number(value, f"schedule.{key}[{i}]") for i, value in enumerate(values)]
    if key == "betas":
        values = _products(values)
    if _flag(table.get(_ZERO_SNR, 0), "schedule table"):
        values = _without_signal_at_the_end(values)
    return {"name": "table", "alphas_cumprod": _check_alphas(values)}


def _check_alphas(values):
    checks.require(len(values) >= 2, "schedule.alphas_cumprod", "must have at least 2 entries")
    previous = 1.0
    for i, value in enumerate(values):
        last = i + 1 == len(values)
        checks.require((value > 0 or (last and value == 0)) and value < previous,
                       "schedule.alphas_cumprod",
                       "must fall strictly from below 1 to above 0, or to 0 at the last level "
                       f"(index 0 = least noise); entry {i} is {value} after {previous}")
        previous = value
    return [float(value) for value in values]


def _check_named(schedule, name):
    checks.keys(schedule, ["name"], list(DEFAULTS[name]), f"schedule {name}")
    parameters = {key: _flag(value, f"schedule {name}") if key == _ZERO_SNR else
                  checks.number(value, f"schedule {name}: {key}")
                  for key, value in schedule.items() if key != "name"}
    if float(parameters.get("steps", 0.5)).is_integer():
        parameters["steps"] = int(parameters["steps"])
    _check_parameters(name, {**DEFAULTS[name], **parameters})
    return {"name": name, **parameters}


def _flag(value, where):
    checks.require(value in (0, 1), f"{where}: {_ZERO_SNR}", f"is true or false, found {value!r}")
    return int(value)


def _check_parameters(name, p):
    where = f"schedule {name}"
    if name == "vp":
        checks.require(0 < p["b"] < p["B"], where,
                       f"needs 0 < b < B, found b = {p['b']}, B = {p['B']}")
    elif name in ("edm", "ve"):
        least = p["sigma_min"] >= 0 if name == "edm" else p["sigma_min"] > 0
        checks.require(p["sigma_max"] > 0, where,
                       f"sigma_max must be positive, found {p['sigma_max']}")
        checks.require(least and p["sigma_min"] < p["sigma_max"], where,
                       f"needs {'0 <=' if name == 'edm' else '0 <'} sigma_min < sigma_max, found "
                       f"{p['sigma_min']} and {p['sigma_max']}")
    elif name == "ve-power":
        checks.require(1 < p["sigma"] <= 1e100, where,
                       f"sigma must be above 1 and at most 1e100, found {p['sigma']}")
    elif "steps" in p:
        checks.whole_number(p["steps"], f"{where}: steps", 2, 1000000)
        checks.require(name != "ddpm-cosine" or p["beta_min"] < p["beta_max"], where,
                       "needs beta_min < beta_max")
        _check_alphas(_alphas({"name": name, **p}))


def _alphas(p):
    """alphas_cumprod of a discrete schedule."""
    if p["name"] == "table":
        return p["alphas_cumprod"]
    products = _products([_beta(p, i) for i in range(p["steps"])])
    return _without_signal_at_the_end(products) if p[_ZERO_SNR] else products


def _products(betas):
    products, product = [], 1.0
    for beta in betas:
        product *= 1 - beta
        products.append(product)
    return products


def _beta(p, i):
    if p["name"] == "ddpm-cosine":
        def squared_cosine(s):
            return math.cos((s + p["offset"]) / (1 + p["offset"]) * math.pi / 2) ** 2
        ratio = squared_cosine((i + 1) / p["steps"]) / squared_cosine(i / p["steps"])
        return min(max(1 - ratio, p["beta_min"]), p["beta_max"])
    power = 2 if p["name"] == "ddpm-scaled-linear" else 1
    first, last = p["beta_start"] ** (1 / power), p["beta_end"] ** (1 / power)
    return (first + (last - first) * i / (p["steps"] - 1)) ** power


def _without_signal_at_the_end(products):
    """Shifted and stretched in the root, as rescale_betas_zero_snr does."""
    if len(products) < 2:
        return products
    first, last = math.sqrt(products[0]), math.sqrt(products[-1])
    found = [((math.sqrt(product) - last) * first / (first - last)) ** 2 for product in products]
    return [*found[:-1], 0.0]


class PlainSchedule:
    """A noise schedule x_t = alpha x_1 + sigma noise on t in [0, 1], 0 = noise and 1 = data.

    Made from a name ("fm-ot"), a name with its parameters ("vp:B=20,b=0.1"), a file of
    alphas_cumprod ("table:FILE") or a dict as describe() returns it. schedules() lists the names.
    """

    # The compiled module's Schedule, in Python: what users see of both is the same.

    _card: Dict[str, Any]

    def __init__(self, description: Any) -> None:
        if isinstance(description, PlainSchedule):
            description = description._card
        elif not isinstance(description, (str, dict)) and hasattr(description, "describe"):
            description = description.describe()
        self._base: Any = None
        try:
            if isinstance(description, dict) and description.get("name") == "preconditioned":
                self._card, self._path = self._preconditioned(description)
            else:
                self._card = check_schedule(description)
                self._path = path_of(self._card)
        except ValueError as error:
            raise Error(str(error)) from None
        self.name: str = self._card["name"]

    def _preconditioned(self, description: Dict[str, Any]) -> Tuple[Dict[str, Any], Any]:
        """The same alpha, and sigma_0 times the sigma of another schedule."""
        keys = {key: value for key, value in description.items() if key not in _PART}
        if set(keys) != {"name", "base", "sigma_0"}:
            raise Error('schedule preconditioned: has the keys "base" and "sigma_0", found '
                        f"{', '.join(sorted(set(keys) - {'name'}))}")
        scale = description["sigma_0"]
        if (isinstance(scale, bool) or not isinstance(scale, (int, float)) or not scale > 0
                or math.isinf(scale)):
            raise Error(f"sigma_0 must be positive and finite, found {scale!r}")
        self._base = PlainSchedule(description["base"])
        part = {**_PART, **_check_part({key: description[key] for key in _PART
                                        if key in description}, "preconditioned")}
        whole = paths.Preconditioned(self._base._path, float(scale))
        if part == _PART:
            return dict(description), whole
        return dict(description), paths.Part(whole, part["start"], part["end"], bool(part["denoise"]))

    @property
    def source_std(self) -> float:
        """The standard deviation of the noise that samples start from."""
        return float(self._path.source_std)

    def describe(self) -> Dict[str, Any]:
        """The name and parameters, as a solver file has them."""
        part = {key: self._card[key] for key in _PART if key in self._card}
        if self._base is not None:
            return {"name": self.name, "base": self._base.describe(),
                    "sigma_0": float(self._card["sigma_0"]), **part}
        if self.name == "table":
            return {"name": self.name, "alphas_cumprod": list(self._card["alphas_cumprod"]), **part}
        values = {key: float(self._card.get(key, value))
                  for key, value in DEFAULTS[self.name].items()}
        return {"name": self.name, **part, **{key: value for key, value in values.items()
                                              if value != 0 or key not in _EXTRA}}

    def point(self, t: float) -> Point:
        """The weights alpha and sigma at t, and their slopes."""
        return self._path.point(t)

    def alpha(self, t: float) -> float:
        """The weight of the data at t."""
        return self.point(t).alpha

    def sigma(self, t: float) -> float:
        """The weight of the noise at t."""
        return self.point(t).sigma

    def log_snr(self, t: float) -> float:
        """The log-SNR at t, log(alpha / sigma)."""
        return self.point(t).log_snr

    def time_at_log_snr(self, log_snr: float) -> float:
        """The time with this log-SNR, clipped to [0, 1]."""
        return self._path.time_at_log_snr(log_snr)

    @property
    def last_time(self) -> float:
        """Where the network is asked last: before the final denoising step, if there is one."""
        own = self._path.last_time if isinstance(self._path, paths.Part) else 1.0
        return own if self._base is None else min(own, self._base.last_time)

    def trained_time(self, t: float) -> float:
        """The time on the whole path, which networks count, of a time on a part of it."""
        base = self._base.trained_time if self._base is not None else float
        return base(self._path.trained_time(t) if isinstance(self._path, paths.Part) else t)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainSchedule) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Schedule({self.describe()!r})"
