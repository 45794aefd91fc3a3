"""The model card, model.json: what the network is and how it is called.

docs/reference/model-card.md describes it."""

import math

from bespoke import checks
from bespoke.schedule import PlainSchedule, alpha_sigma, check_schedule

SCRIPT, PACKAGE = FORMATS = ["torchscript", "aotinductor"]
PREDICTIONS = ["velocity", "noise", "data", "v", "edm", "score"]
# What papers and other tools call predictions.
PREDICTION_ALIASES = {"eps": "noise", "epsilon": "noise", "x0": "data", "x_0": "data",
                      "sample": "data", "v_prediction": "v", "v-prediction": "v",
                      "flow": "velocity"}
CONVENTIONS = ["noise-to-data", "data-to-noise", "index", "sigma", "log-sigma", "none"]
INPUT_SCALINGS = ["none", "edm"]
LAYOUTS = ["channels-first", "channels-last"]
NEEDED = ["sample_shape", "prediction", "schedule", "time"]
OPTIONAL = ["format", "name", "weights", "value_range", "conditions", "input_scaling",
            "clip", "extra_channels", "layout", "error_mask", "sample_rate", "licence", "source"]

# Noise to signal between which a network that counts time in it is called: EDM's least level, and
# a level no schedule needs to pass.
_LEAST_RATIO, _MOST_RATIO = 0.002, 1000.0


def check_card(fields, other_names=()):
    """The card's fields, checked and in their written form.

    `other_names` are offered when an unknown key is spelt nearly like one of them.
    """
    known = [*NEEDED, *OPTIONAL]
    for key in fields:
        checks.require(key in known, "card", checks.unknown("key", key, [*known, *other_names]))
    for key in NEEDED:
        checks.require(key in fields, "card", f'key "{key}" is missing')
    least_axes = 2 if fields.get("layout") == LAYOUTS[1] else 1
    readers = {
        "format": lambda value: checks.choice(value, FORMATS, "format", "format"),
        "sample_shape": lambda value: checks.shape(value, "sample_shape"),
        "value_range": lambda value: checks.value_range(value, "value_range"),
        "prediction": lambda value: checks.choice(PREDICTION_ALIASES.get(value, value),
                                                  PREDICTIONS, "prediction", "prediction"),
        "schedule": check_schedule,
        "time": check_time,
        "conditions": check_conditions,
        "input_scaling": lambda value: checks.choice(value, INPUT_SCALINGS, "input scaling",
                                                     "input_scaling"),
        "clip": check_clip,
        "extra_channels": lambda value: checks.whole_number(value, "extra_channels", 1,
                                                            checks.LARGEST),
        "layout": lambda value: checks.choice(value, LAYOUTS, "layout", "layout"),
        "error_mask": lambda value: checks.text(value, "error_mask"),
        "sample_rate": lambda value: checks.whole_number(value, "sample_rate", 1),
    }
    card = {key: readers[key](value) if key in readers else checks.text(value, key)
            for key, value in fields.items()}
    checks.require(len(card["sample_shape"]) >= least_axes, "layout",
                   "is of samples that have channels and at least one other axis")
    _check_error_mask(card)
    return card


def check_clip(given):
    """What the model's sampler does to the data prediction, as a card has it."""
    if given is True or (isinstance(given, (list, tuple)) and len(given) == 2):
        return given if given is True else checks.value_range(given, "clip")
    checks.require(isinstance(given, dict), "clip",
                   'must be true, [least, most] or {"quantile": ..., "cap": ...}')
    checks.keys(given, ["quantile", "cap"], ["range"], "clip")
    least, most = checks.value_range(given.get("range", [-1, 1]), "clip.range")
    quantile, cap = (checks.number(given[key], f"clip.{key}") for key in ("quantile", "cap"))
    checks.require(0 < quantile < 1, "clip.quantile", f"must lie between 0 and 1, found {quantile}")
    checks.require(least == -most and cap >= most, "clip",
                   "a dynamic threshold needs a range even about 0 and a cap not below it")
    return dict(given)


def _check_error_mask(card):
    mask = card.get("error_mask", "")
    if not mask or mask.endswith(".safetensors"):
        return
    name = mask[len("not "):] if mask.startswith("not ") else mask
    tensors = [each["name"] for each in card.get("conditions", []) if "shape" in each]
    checks.require(name in tensors, "error_mask",
                   f"must be a condition that is a tensor, or a .safetensors file, found '{mask}'")


def returned_shape(card):
    """What the network returns for a sample: the sizes behind the batch."""
    channels, *rest = card["sample_shape"]
    channels += card.get("extra_channels", 0)
    return [*rest, channels] if card.get("layout") == LAYOUTS[1] else [channels, *rest]


def check_time(given):
    """The time as a card has it, from a dict or from text such as "index:levels=1000"."""
    time = given
    if isinstance(given, str):
        convention, options = checks.parse_spec(given, "time")
        time = {"convention": convention, **options}
    checks.keys(time, ["convention"], ["scale", "levels", "integer"], "time")
    card = {"convention": checks.choice(time["convention"], CONVENTIONS, "time convention", "time")}
    if "scale" in time:
        card["scale"] = checks.number(time["scale"], "time.scale")
        checks.require(card["scale"] != 0, "time.scale", "must not be 0")
    index = card["convention"] == "index"
    checks.require(index == ("levels" in time), "time.levels",
                   'the number of discrete levels goes with the convention "index"')
    if index:
        card["levels"] = checks.whole_number(time["levels"], "time.levels", 2, 1000000)
    if "integer" in time:
        checks.require(index and isinstance(time["integer"], bool), "time.integer",
                       'is true or false and goes with the convention "index"')
        card["integer"] = time["integer"]
    return card


def check_conditions(given):
    checks.require(isinstance(given, (list, tuple)), "conditions", "must be a list")
    cards = [_check_condition(condition, f"conditions[{i}]") for i, condition in enumerate(given)]
    names = [card["name"] for card in cards]
    for name in names:
        checks.require(names.count(name) == 1, "conditions", f"the name '{name}' is there twice")
    return cards


def _check_condition(given, where):
    checks.keys(given, ["name"], ["classes", "shape", "dtype", "null"], where)
    checks.require(("classes" in given) != ("shape" in given), where,
                   'needs "classes" for an integer or "shape" for a tensor, and not both')
    card = {"name": checks.text(given["name"], f"{where}.name")}
    checks.require(card["name"] and "=" not in card["name"], f"{where}.name",
                   "must not be empty or hold '=', which ends it where a condition is given as "
                   "NAME=VALUE")
    if "classes" in given:
        checks.require("dtype" not in given, where, '"dtype" goes with "shape"')
        card["classes"] = checks.whole_number(given["classes"], f"{where}.classes", 1,
                                              checks.LARGEST)
        if "null" in given:
            card["null"] = checks.whole_number(given["null"], f"{where}.null", 0, checks.LARGEST)
        return card
    card["shape"] = checks.shape(given["shape"], f"{where}.shape")
    card["dtype"] = checks.choice(given.get("dtype", "float32"), ["float32", "int64"], "dtype",
                                  f"{where}.dtype")
    if "null" in given:
        null = checks.text(given["null"], f"{where}.null")
        checks.require(null == "zeros" or null.endswith(".safetensors"), f"{where}.null",
                       f'is "zeros" or a .safetensors file beside the card, found "{null}"')
        card["null"] = null
    return card


def check_decoder(given):
    """The fields of a decoder's card that the user gives; the files' are added by the export."""
    checks.keys(given, [], ["scale", "shift", "sample_shape", "value_range"], "decoder")
    card = {key: checks.number(given[key], f"decoder.{key}") for key in ("scale", "shift")
            if key in given}
    checks.require(card.get("scale", 1) != 0, "decoder.scale", "must not be 0")
    if "sample_shape" in given:
        card["sample_shape"] = checks.shape(given["sample_shape"], "decoder.sample_shape")
    if "value_range" in given:
        card["value_range"] = checks.value_range(given["value_range"], "decoder.value_range")
    return card


def network_time(card, t):
    """Our time t in [0, 1] as the network's own, a number; whole for integer times.

    Sigmas are kept where networks are called in earnest: at 0 or infinity many give nothing.
    """
    time = card["time"]
    convention = time["convention"]
    whole = PlainSchedule(card["schedule"]).trained_time(t)
    if convention == "noise-to-data":
        value = whole
    elif convention == "data-to-noise":
        value = 1 - whole
    elif convention == "index":
        value = max(0.0, time["levels"] * (1 - whole) - 1)
    else:
        alpha, sigma = alpha_sigma(card["schedule"], t)
        ratio = min(max(sigma, _LEAST_RATIO * alpha) / max(alpha, 1e-12), _MOST_RATIO)
        value = ratio if convention == "sigma" else math.log(ratio) / 4
    value *= time.get("scale", 1)
    return round(value) if time.get("integer") else value


def input_deviation(card, t):
    """About the standard deviation of what the network is given as x at our time t."""
    if card.get("input_scaling") == "edm":
        return 1.0
    alpha, sigma = alpha_sigma(card["schedule"], t)
    return math.hypot(alpha, sigma)
