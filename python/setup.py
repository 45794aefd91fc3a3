"""Builds the compiled module bespoke._core by the repository's own CMake project.

Without cmake, or with BESPOKE_COMPILED=0, the package is installed without it: solvers are run and
learnt in Python, and what finds them by fit and distill says what it needs.
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


class CMakeBuild(build_ext):
    """Configures and builds the target bespoke_python, and puts it where setuptools wants it."""

    def build_extension(self, ext):
        if not (ROOT / "CMakeLists.txt").is_file():
            sys.exit("bespoke-solvers is built from a clone of its repository: there is no "
                     f"CMakeLists.txt in {ROOT}")
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
        built = next((scratch / "python" / "bespoke").glob("_core*.so"), None) or next(
            (scratch / "python" / "bespoke").glob("_core*.pyd"))
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built, target)


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
    """The one module, where it is wanted and can be built."""
    wanted = os.environ.get("BESPOKE_COMPILED")
    if wanted == "0":
        return []
    if shutil.which("cmake") is None:
        needs = ("cmake 3.25 or later (Debian: apt install cmake g++ libfmt-dev "
                 "nlohmann-json3-dev; or pip install cmake)")
        if wanted == "1":
            sys.exit(f"bespoke-solvers needs {needs} to build its compiled module")
        print(f"bespoke-solvers is installed without its compiled module, which needs {needs}: "
              "solvers are run and learnt; finding them by fit and distill is not possible",
              file=sys.stderr)
        return []
    return [Extension("bespoke._core", [])]


setup(version=version(), ext_modules=compiled_modules(), cmdclass={"build_ext": CMakeBuild})
