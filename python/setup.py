"""Builds the compiled module bespoke._core by the repository's own CMake project."""

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
        if cmake is None:
            sys.exit("bespoke-solvers needs cmake 3.25 or later to build (Debian: apt install "
                     "cmake g++ libfmt-dev nlohmann-json3-dev; or pip install cmake)")
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


setup(version=version(), ext_modules=[Extension("bespoke._core", [])],
      cmdclass={"build_ext": CMakeBuild})
