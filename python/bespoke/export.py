"""Solvers for programs in other languages."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Sequence, Union

from bespoke.errors import Error
from bespoke.solver import Solver

_HEADER = """\
/* {title}
 *
 * C11 and C++17, no other file needed. The network is called on states x [size] and writes its
 * {prediction} prediction f; t is 0 at the noise and 1 at the data. The solver is
 *   x_0 = start_scale * noise,   x_(i+1) = a_i x_0 + sum over j <= i of b_ij f_j.
 */
#ifndef {guard}
#define {guard}

#include <stddef.h>

#define {macro}_NFE {nfe}

static const double {name}_start_scale = {start_scale};
static const double {name}_times[{nfe} + 1] = {times};
/* What other tools call sigma: sigma / alpha, or sigma itself on a flow path. */
static const double {name}_sigmas[{nfe} + 1] = {sigmas};
static const double {name}_a[{nfe}] = {a};
static const double {name}_b[{nfe}][{nfe}] = {{
{b}}};

"""

_FUNCTION = """\
/* From noise in x to a sample in x. `work` holds ({nfe} + 1) * size numbers. */
typedef void (*{name}_network_{type})(double t, const {type}* x, {type}* f, size_t size,
                                      void* context);
static inline void {name}_sample_{type}({name}_network_{type} network, void* context, {type}* x,
                                        {type}* work, size_t size) {{
  {type}* const start = work;
  size_t k;
  int i, j;
  for (k = 0; k < size; ++k) {{
    start[k] = x[k] = ({type})({name}_start_scale * (double)x[k]);
  }}
  for (i = 0; i < {macro}_NFE; ++i) {{
    network({name}_times[i], x, work + (size_t)(i + 1) * size, size, context);
    for (k = 0; k < size; ++k) {{
      double sum = {name}_a[i] * (double)start[k];
      for (j = 0; j <= i; ++j) {{
        sum += {name}_b[i][j] * (double)work[(size_t)(j + 1) * size + k];
      }}
      x[k] = ({type})sum;
    }}
  }}
}}

"""


def c_header(solver: Solver, prediction: Optional[str] = None, name: Optional[str] = None) -> str:
    """The text of a header with the solver on a network's raw outputs, in float and double.

    `prediction` is what the network outputs, the solver's own where it is not given; `name` begins
    every name in the header.
    """
    name = _identifier(solver.name if name is None else name, given=name is not None)
    kind = prediction or solver.prediction
    lowered = solver.lower(kind)
    nfe = lowered.nfe
    rows = [f"    {_list([*row, *[0.0] * (nfe - len(row))])},\n" for row in lowered.b]
    title = f"{_plain(solver.name)}: {nfe} evaluations on the {solver.schedule.name} path"
    names = dict(name=name, macro=name.upper(), nfe=nfe)
    text = _HEADER.format(title=title, guard=f"{name.upper()}_H", prediction=kind,
                          start_scale=_number(lowered.start_scale), times=_list(lowered.times),
                          sigmas=_list(lowered.sigmas), a=_list(lowered.a), b="".join(rows),
                          **names)
    for kind_of_number in ("float", "double"):
        text += _FUNCTION.format(type=kind_of_number, **names)
    return text + f"#endif /* {name.upper()}_H */\n"


def write_c_header(solver: Solver, path: Union[str, "os.PathLike[str]"],
                   prediction: Optional[str] = None, name: Optional[str] = None) -> None:
    """Writes it to a file, atomically."""
    text = c_header(solver, prediction, name)
    scratch = f"{os.fspath(path)}.part"
    with open(scratch, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(scratch, path)


def _identifier(name: str, given: bool) -> str:
    if given and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise Error(f"name must be an identifier of C, found {name!r}")
    made = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "solver"
    return made if not made[0].isdigit() else f"solver_{made}"


def _plain(text: str) -> str:
    return re.sub(r"[^ -~]|\*/", "?", text)


def _number(value: float) -> str:
    """Reads back exactly. A literal cannot be infinite; the largest double is."""
    if value == float("inf"):
        return "1.7976931348623157e308"
    return repr(float(value))


def _list(values: Sequence[float]) -> str:
    numbers: List[str] = [_number(value) for value in values]
    return "{" + ", ".join(numbers) + "}"
