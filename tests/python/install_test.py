"""Installs the package into a fresh virtual environment, without a network, and uses it there."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python"

try:
    import numpy  # noqa: F401
    import setuptools  # noqa: F401
    import venv  # noqa: F401
    import wheel  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

USE = """
import importlib.metadata, pathlib, sys
import bespoke
from bespoke import _core
assert sys.prefix in _core.__file__, _core.__file__
assert importlib.metadata.version("bespoke-solvers") == _core.__version__
assert (pathlib.Path(bespoke.__file__).parent / "py.typed").is_file()
noise = bespoke.noise((8, 4))
result = bespoke.fit(lambda t, x: -x, noise, nfe=2)
print(result.solver.nfe, "torch" in sys.modules)
"""


LEARN = """
import bespoke, sys
from bespoke import _core
assert _core.__file__.endswith(".py") and sys.prefix in _core.__file__, _core.__file__
noise = bespoke.noise((8, 4))
sampler = bespoke.Sampler(lambda t, x: -x, steps=2, say=False)
sampler(noise)
sampler.save("learnt.solver.json")
print(bespoke.Solver.load("learnt.solver.json").sample(lambda t, x: -x, noise).shape)
try:
    bespoke.fit(lambda t, x: -x, noise, nfe=2)
except bespoke.Error as error:
    print(error)
"""


class Install(unittest.TestCase):
    def run_in(self, folder, *command, **variables):
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("PYTHON")}
        environment.update(variables)
        done = subprocess.run([str(folder / "bin" / command[0]), *command[1:]], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_without_the_compiled_module(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "environment"
            subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(folder)],
                           check=True)
            self.run_in(folder, "pip", "install", "--no-index", "--no-build-isolation",
                        str(PACKAGE), BESPOKE_COMPILED="0")
            os.chdir(scratch)
            shape, refusal = self.run_in(folder, "python", "-c", LEARN).splitlines()
            self.assertEqual(shape, "(8, 4)")
            self.assertIn("finding solvers needs the compiled module", refusal)

    def built_with(self, cmake, **variables):
        """What building a wheel says and gives where `cmake` is this script."""
        with tempfile.TemporaryDirectory() as scratch:
            stub = Path(scratch) / "programs" / "cmake"
            stub.parent.mkdir()
            stub.write_text(cmake)
            stub.chmod(0o755)
            environment = {**os.environ, **variables,
                           "PATH": f"{stub.parent}{os.pathsep}{os.environ['PATH']}"}
            run = subprocess.run([sys.executable, "setup.py", "build", "--build-base",
                                  str(Path(scratch) / "build")], cwd=PACKAGE, env=environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            made = [path.name for path in Path(scratch, "build").rglob("*")]
        return run, made

    def test_where_cmake_cannot_build_the_module_the_rest_is_installed(self):
        no_compiler = "#!/bin/sh\necho no compiler; exit 1\n"
        no_sources = "#!/bin/sh\ntest \"$1\" != --build\n"
        nothing = "#!/bin/sh\nexit 0\n"
        for cmake, why in ((no_compiler, "cmake could not configure it, as it says above"),
                           (no_sources, "cmake could not build it, as it says above"),
                           (nothing, "cmake made no module in ")):
            run, made = self.built_with(cmake, BESPOKE_COMPILED="")
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertIn("plain_core.py", made)
            self.assertFalse([name for name in made if name.endswith((".so", ".pyd"))])
            said = [line for line in run.stdout.splitlines() if line.startswith("bespoke-solvers")]
            self.assertEqual(len(said), 1, run.stdout)
            self.assertIn(f"without its compiled module, which cannot be built here ({why}", said[0])
            self.assertNotIn("Traceback", run.stdout)
            run, _ = self.built_with(cmake, BESPOKE_COMPILED="1")
            self.assertNotEqual(run.returncode, 0, run.stdout)
            self.assertIn(why, run.stdout)
            self.assertNotIn("Traceback", run.stdout)

    def test_into_a_clean_environment(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "environment"
            subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(folder)],
                           check=True)
            # The extra is satisfied by a PyTorch that calls itself a pre-release, as Debian's does.
            wanted = str(PACKAGE) if torch is None else f"{PACKAGE}[torch]"
            self.run_in(folder, "pip", "install", "--no-index", "--no-build-isolation", wanted,
                        BESPOKE_COMPILED="1")
            self.assertEqual(self.run_in(folder, "python", "-c", USE).split(), ["2", "False"])
            if torch is not None:
                self.assertIn("usage", self.run_in(folder, "bespoke-export", "--help"))


if __name__ == "__main__":
    unittest.main()
