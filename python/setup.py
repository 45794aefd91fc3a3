"""Builds the compiled module bespoke._core by the repository's own CMake project.

Where it cannot be built, or with BESPOKE_COMPILED=0, the package is installed without it: solvers
are run and learnt in Python, and what finds them by fit and distill says what it needs. With
BESPOKE_COMPILED=1 nothing is installed without it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NEEDS = ("cmake 3.25 or later, a C++ compiler, fmt, nlohmann-json and pybind11 (Debian: apt install "
         "cmake g++ libfmt-dev nlohmann-json3-dev)")
WANTED = os.environ.get("BESPOKE_COMPILED")


class CMakeBuild(build_ext):
    """Configures and builds the target bespoke_python, and puts it where setuptools wants it."""

    def build_extension(self, ext):
        if not (ROOT / "CMakeLists.txt").is_file():
            sys.exit("bespoke-solvers is built from a clone of its repository: there is no "
                     f"CMakeLists.txt in {ROOT}")
        try:
            built = self.built()
        except (OSError, subprocess.CalledProcessError) as error:
            go_without(f"cannot be built here ({reason(error)})")
            return
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built, target)

    def built(self):
        """The file that CMake made."""
        cmake = shutil.which("cmake")
        scratch = Path(self.build_temp).resolve() / "cmake"
        scratch.mkdir(parents=True, exist_ok=True)
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        # fmt goes into the module, so that it runs where the library is not installed.
        subprocess.run([cmake, "-S", str(ROOT), "-B", str(scratch), *generator,
                        "-DCMAKE_BUILD_TYPE=Release", "-DBESPOKE_TORCH=OFF", "-DBESPOKE_TESTS=OFF",
                        "-DBESPOKE_PYTHON=ON", "-DBESPOKE_FMT=fmt::fmt-header-only",
                        "-DBESPOKE_WARNINGS_AS_ERRORS=OFF", f"-DPython_EXECUTABLE={sys.executable}",
                        *pybind11_folder()], check=True)
        subprocess.run([cmake, "--build", str(scratch), "--target", "bespoke_python",
                        "--parallel", str(os.cpu_count() or 1)], check=True)
        folder = scratch / "python" / "bespoke"
        for built in (*folder.glob("_core*.so"), *folder.glob("_core*.pyd")):
            return built
        raise FileNotFoundError(f"cmake made no module in {folder}")


def reason(error):
    """What went wrong, in a few words."""
    if not isinstance(error, subprocess.CalledProcessError):
        return str(error)
    done = "build" if "--build" in error.cmd else "configure"
    return f"cmake could not {done} it, as it says above"


def go_without(why):
    """Says in one sentence that there is no compiled module; ends the run where it is asked for."""
    if WANTED == "1":
        sys.exit(f"bespoke-solvers: its compiled module {why}; it needs {NEEDS}")
    print(f"bespoke-solvers is installed without its compiled module, which {why} and needs {NEEDS}: "
          "solvers are run and learnt; finding them by fit and distill is not possible",
          file=sys.stderr)


def pybind11_folder():
    """Where a pybind11 installed by pip has its CMake files; elsewhere CMake looks itself."""
    try:
        import pybind11
        return [f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
    except ImportError:
        return []


def version():
    text = (ROOT / "include/bespoke/version.h").read_text(encoding="utf-8")
    return re.search(r'define BESPOKE_VERSION "([^"]+)"', text).group(1)


def compiled_modules():
    """The one module, where it is wanted and can be tried."""
    if WANTED == "0":
        return []
    if shutil.which("cmake") is None:
        go_without("cannot be built here (there is no cmake)")
        return []
    return [Extension("bespoke._core", [], optional=WANTED != "1")]


setup(version=version(), ext_modules=compiled_modules(), cmdclass={"build_ext": CMakeBuild})
