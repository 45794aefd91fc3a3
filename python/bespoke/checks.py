"""Checks of values that people write by hand; every mistake is an Error (a ValueError) of one
sentence that begins with the key it is in."""

import difflib
import math
import numbers

from bespoke.errors import Error

LARGEST = 1 << 40  # of what a card counts
_MOST_WHOLE = (1 << 63) - 1  # that the compiled module takes


def require(good, where, problem):
    if not good:
        raise Error(f"{where}: {problem}")


def unknown(what, word, known):
    """The sentence for a word that is not one of `known`, with the nearest of them."""
    near = difflib.get_close_matches(str(word), known, 1, 0.5)
    if near:
        return f"unknown {what} '{word}'; did you mean '{near[0]}'?"
    return f"unknown {what} '{word}'; choose one of: {', '.join(known)}"


def keys(table, needed, optional, where):
    require(isinstance(table, dict), where, f"must be an object, found {table!r}")
    known = [*needed, *optional]
    for key in table:
        require(key in known, where, unknown("key", key, known))
    for key in needed:
        require(key in table, where, f'key "{key}" is missing')


def choice(value, known, what, where):
    require(value in known, where, unknown(what, value, known))
    return value


def number(value, where):
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    require(good, where, f"must be a finite number, found {value!r}")
    return value if isinstance(value, int) else float(value)


def whole_number(value, name, least=None, most=None):
    """`value` as an int, which it is already: 2.0, "2" and True are refused as 2.5 is."""
    good = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(good, name, f"must be a whole number, found {value!r}")
    least = -_MOST_WHOLE if least is None else least
    if most is not None:
        require(least <= value <= most, name, f"is {value}, it must be from {least} to {most}")
    require(value >= least, name, f"must be at least {least}, found {value}")
    require(value <= _MOST_WHOLE, name, f"must be at most {_MOST_WHOLE}, found {value}")
    return int(value)


def text(value, where):
    require(isinstance(value, str) and value, where, f"must be a text, found {value!r}")
    return value


def shape(value, where):
    good = isinstance(value, (list, tuple)) and len(value) > 0
    require(good, where, "must be a list of sizes without the batch, e.g. [3, 32, 32]")
    return [whole_number(size, f"{where}[{i}]", 1, LARGEST) for i, size in enumerate(value)]


def value_range(value, where):
    good = isinstance(value, (list, tuple)) and len(value) == 2
    require(good, where, f"must be [least, most], found {value!r}")
    least, most = (number(end, f"{where}[{i}]") for i, end in enumerate(value))
    require(least < most, where, f"must be [least, most], found {value!r}")
    return [least, most]


def parse_value(word):
    """A number, true or false where `word` reads as one, else `word` itself."""
    for convert in (int, float):
        try:
            return convert(word)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(word, word)


def parse_spec(spec, where):
    """`name:key=value,key=value` as (name, {key: value})."""
    name, _, rest = spec.partition(":")
    options = {}
    for part in rest.split(",") if rest else []:
        key, equals, value = part.partition("=")
        require(equals, where, f"options are written KEY=VALUE, found '{part}' in '{spec}'")
        options[key] = parse_value(value)
    return name, options
