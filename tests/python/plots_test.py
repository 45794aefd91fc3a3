"""Tests of plots: what is drawn, with matplotlib where it is installed and a recorder otherwise."""

import io
import sys
import unittest
from unittest import mock

try:
    import numpy as np

    import bespoke._core  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import matplotlib
    matplotlib.use("Agg")
except ImportError:
    matplotlib = None

import bespoke
from bespoke import Error, Solver
from mixtures import two_gaussians


class Axis:
    """Remembers what was called."""

    def __init__(self):
        self.calls = []
        self.figure = mock.Mock()

    def __getattr__(self, name):
        return lambda *arguments, **options: self.calls.append((name, arguments, options))

    def of(self, name):
        return [(arguments, options) for called, arguments, options in self.calls if called == name]


def comparison():
    return bespoke.compare(two_gaussians, bespoke.noise((8, 4)), ["euler", "midpoint"],
                           nfe=(4, 6), progress=False)


class Plots(unittest.TestCase):
    def test_times_and_weights_of_a_solver(self):
        solver = Solver.named("midpoint", 4)
        axes = Axis(), Axis()
        self.assertIs(solver.plot(axes), axes[1].figure)
        (steps, times), _ = axes[0].of("plot")[1]
        self.assertEqual((list(steps), times), ([0, 1, 2, 3, 4], solver.times))
        table = axes[1].of("imshow")[0][0][0]
        self.assertEqual(table[3].tolist(), [solver.a[3], *solver.b[3]])
        self.assertTrue(np.isnan(table[0, 2:]).all())

    def test_a_line_for_each_solver_of_a_comparison(self):
        found, axis = comparison(), Axis()
        self.assertIs(found.plot(axis), axis.figure)
        lines = {options["label"]: arguments for arguments, options in axis.of("plot")}
        self.assertEqual(list(lines), ["euler", "midpoint"])
        for name, (counts, values) in lines.items():
            self.assertEqual(counts, (4, 6))
            self.assertEqual(list(values), [row.psnr for row in found.rows if row.name == name])

    def test_without_matplotlib_the_extra_is_named(self):
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            with self.assertRaisesRegex(Error, r"bespoke-solvers\[plots\]"):
                Solver.named("euler", 4).plot()

    @unittest.skipIf(matplotlib is None, "matplotlib is not installed")
    def test_figures_can_be_saved(self):
        for figure in (Solver.named("dpm++3m", 8).plot(), comparison().plot()):
            file = io.BytesIO()
            figure.savefig(file, format="png")
            self.assertGreater(len(file.getvalue()), 5000)


if __name__ == "__main__":
    unittest.main()
