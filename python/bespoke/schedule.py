"""Noise schedules of the card: x_t = alpha x_1 + sigma x_0, t = 0 at the noise, 1 at the data.

They are needed here only to check a card and to call a network at the times it was made for.
"""

import math
from typing import Any, Dict

from bespoke import checks

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
