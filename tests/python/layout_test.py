"""The package has no algorithm of its own but those that must run without the compiled module."""

import ast
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "bespoke"

# What does sums over samples: adapters of array libraries; running a solver from a file, alone or
# in the loop of another tool; the stepwise fit that learns without the compiled module.
SUMS = {"arrays.py", "field.py", "sampling.py", "k_diffusion.py", "stepwise.py"}
# Operations that only algorithms on samples need.
OPERATIONS = {"combine", "combine_per_sample", "grams", "products", "scaled_norms", "lstsq", "solve",
              "einsum", "cholesky", "qr"}


def operations_of(path):
    """The attributes that a module calls."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.func.attr for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}


class Layout(unittest.TestCase):
    def test_sums_over_samples_are_where_they_belong(self):
        modules = sorted(PACKAGE.glob("*.py"))
        self.assertGreater(len(modules), 20, "the test no longer finds the package")
        for path in modules:
            if path.name not in SUMS:
                self.assertFalse(operations_of(path) & OPERATIONS,
                                 f"{path.name} has an algorithm of its own; the core has one "
                                 "for all back ends")

    def test_the_test_sees_what_it_looks_for(self):
        self.assertIn("combine", operations_of(PACKAGE / "sampling.py"))


if __name__ == "__main__":
    unittest.main()
