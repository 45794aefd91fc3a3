"""A PyTorch module as an AOTInductor package (.pt2): compiled code that Bespoke runs by itself."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from typing import NamedTuple

import torch

from bespoke import checks

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp64": torch.float64,
          "bf16": torch.bfloat16, "fp16": torch.float16}
DEVICES = ["cpu", "cuda"]

# Largest differences to the eager module that rounding explains: compiled code rounds fewer of the
# numbers in between.
TOLERANCES = {"fp32": 1e-4, "tf32": 1e-2, "fp64": 1e-4, "bf16": 5e-2, "fp16": 1e-2}

# Batches the code is compiled for. A bound lets the compiler count in 32 bits; Bespoke computes
# larger batches in pieces.
MOST_BATCH = 1024

# The batch of the example, for which the compiler chooses how kernels are cut up.
TUNED_BATCH = 16

# Older ones write packages that Bespoke's LibTorch cannot read.
_LEAST_VERSION = (2, 9)


class Target(NamedTuple):
    """What a package is compiled for; it runs nowhere else."""

    device: str  # one of DEVICES
    dtype: str  # one of DTYPES

    def put(self, tensor):
        """A tensor as Bespoke gives it to a network on this device, of this type."""
        return tensor.to(self.device, DTYPES[self.dtype] if tensor.is_floating_point() else None)


def check_target(device, dtype):
    """The Target of these names, those not given chosen; ValueError where there can be none."""
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    checks.require(version >= _LEAST_VERSION, "format",
                   f"aotinductor needs PyTorch {'.'.join(map(str, _LEAST_VERSION))} or later, this "
                   f"is {torch.__version__}")
    available = torch.cuda.is_available()
    device = checks.choice(device or ("cuda" if available else "cpu"), DEVICES, "device", "device")
    checks.require(device == "cpu" or available, "device",
                   "a package for cuda is compiled where there is a GPU, and PyTorch sees none")
    return Target(device, checks.choice(dtype or "fp32", list(DTYPES), "dtype", "dtype"))


def check_module(module):
    checks.require(not isinstance(module, torch.jit.ScriptModule), "module",
                   "a TorchScript module cannot be compiled; give the torch.nn.Module that it was "
                   "made from")


@contextlib.contextmanager
def products_of(target):
    """While it lasts, products are computed as the target's type says: in TF32, or never."""
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    try:
        for backend in backends:
            backend.allow_tf32 = target.dtype == "tf32"
        # One operator for a whole layer, which leaves the compiler nothing to compile.
        torch.backends.mha.set_fastpath_enabled(False)
        yield
    finally:
        for backend, allowed in zip(backends, before):
            backend.allow_tf32 = allowed
        torch.backends.mha.set_fastpath_enabled(fast_path)


def write_package(module, example, path, names, target):
    """Compiles `module`, called as in `example` with any batch, into the file `path`.

    names  of the arguments
    """
    batch = torch.export.Dim("batch", min=1, max=MOST_BATCH)
    exported = torch.export.export(_Called(module), (tuple(example),), strict=False,
                                   dynamic_shapes={"arguments": tuple({0: batch} for _ in example)})
    torch._inductor.aoti_compile_and_package(
        exported, package_path=str(path),
        inductor_configs={"aot_inductor.metadata": _metadata(module, names, example, target)})


def load_package(path):
    """The network in a package, as a function of its arguments.

    RuntimeError where the package crashes as it is loaded.
    """
    _load_elsewhere(path)
    loaded = torch._inductor.aoti_load_package(str(path))
    return lambda *arguments: loaded(arguments)


_LOAD = "import sys, torch; torch._inductor.aoti_load_package(sys.argv[1])"


def _load_elsewhere(path):
    """Loads it in a process of its own first: code that crashes takes its process with it."""
    code = subprocess.run([sys.executable, "-c", _LOAD, str(path)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode
    if code < 0:  # a signal; what else goes wrong is raised here as well
        compiler = os.environ.get("CXX", "g++")
        raise RuntimeError(
            f"the package crashes when it is loaded ({signal.Signals(-code).name}), as those of a "
            f"compiler do that puts the C++ library into them; it was made with {compiler}, set CXX "
            "to another, such as /usr/bin/g++")


def _metadata(module, names, example, target):
    """What Bespoke must know before it loads the code (docs/reference/model-card.md). Text only."""
    return {"bespoke_dtype": target.dtype,
            "bespoke_arguments": ",".join(map(_argument, names, example)),
            "bespoke_most_batch": str(MOST_BATCH),
            "bespoke_parameters": str(sum(each.numel() for each in module.parameters()))}


def _argument(name, value):
    """"x float32 3x32x32": the name, the type and the shape without the batch."""
    words = [name, str(value.dtype).replace("torch.", ""), "x".join(map(str, value.shape[1:]))]
    return " ".join(filter(None, words))


class _Called(torch.nn.Module):
    """A module of one argument, a tuple of the module's own.

    Sizes are declared for arguments by name, and a module may call its own as it likes. Versions of
    PyTorch differ in what `*arguments` are called. In the package the tuple is flat.
    """

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, arguments):
        return self.module(*arguments)
