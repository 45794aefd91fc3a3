#!/usr/bin/env python3
"""What the program costs on a GPU beside the network: every figure of docs/develop/performance.md.

    python3 bench/gpu.py                       # build/release/bespoke, minutes
    python3 bench/gpu.py --only sampling       # or reference, distillation, precision
    python3 bench/gpu.py --only precision --network unet.pt --batch 64

Prints one line for each figure, with the ratio that counts and what is wanted of it. The networks
are those that come with the sources; the comparisons run the same TorchScript in PyTorch, and
torchdiffeq where it is installed. Both sides are warm: sampling and the reference are timed in one
process (bench/gpu_bench.cpp), and of distillation runs of two lengths are subtracted.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = 8


def fail(message):
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


try:
    import torch
except ImportError:
    fail("PyTorch is not installed; the comparisons need it")


class Program:
    """The command line, timed as it times itself."""

    def __init__(self, binary, folder, options=None):
        self.binary, self.folder, self.options = binary, folder, options

    def run(self, *arguments):
        words = [str(self.binary), *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            fail(f"{' '.join(words)}: {done.stderr.strip()}")
        if done.stderr:
            sys.stderr.write(done.stderr)
        return done.stdout

    def sample(self, model, **options):
        """Draws samples; the seconds it says that took, and the tensors it wrote."""
        words = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        out = self.run("sample", "--model", model, "--cond", "y=0-9", "--device", "cuda",
                       "-o", self.folder / "samples", *words)
        seconds = float(re.search(r", ([0-9.]+) s\n", out).group(1))
        return seconds, read_safetensors(self.folder / "samples" / "samples.safetensors")


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    types = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(data[begin:end]), dtype=types[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def network(model):
    path = model if Path(model).is_file() else ROOT / "models" / f"{model}.pt"
    loaded = torch.jit.load(str(path), map_location="cuda")
    return loaded.float().eval()


def allow_tf32(allow):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow


def seconds_of(work, repeats, warm=5):
    """The median of several runs, each waited for."""
    times = []
    for i in range(warm + repeats):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if i >= warm:
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


def inputs(batch):
    x = torch.randn(batch, 3, 32, 32, device="cuda")
    return x, torch.full((batch,), 0.5, device="cuda"), torch.arange(batch, device="cuda") % 10


def graph_of(work):
    """work() as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return lambda: (graph.replay(), result.cpu())


def report(what, ours, theirs, bound):
    ratio = ours / theirs
    print(f"{what:<62}  {1e3 * ours:9.1f} ms  {1e3 * theirs:9.1f} ms  {ratio:6.3f}  {bound}",
          flush=True)


def benchmark(program, name, *words, environment={}):
    """What a benchmark in C++ prints."""
    bench = program.binary.parent / "bench/bespoke_bench"
    if not bench.is_file():
        fail(f"{bench} is not built; configure with -DBESPOKE_BENCH=ON")
    words = [str(bench), f"--benchmark_filter={name}", *words]
    done = subprocess.run(words, capture_output=True, text=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        fail(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def sampling(program):
    """Measured in one process, by the benchmarks in C++."""
    print(benchmark(program, "gpu_sampling"), flush=True)


@torch.no_grad()
def precision(program):
    """A call of the bare network by type and layout: milliseconds, and how far from float64."""
    x, t, y = inputs(program.options.batch or 256)
    net = network(program.options.network)
    truth = net.double()(x.double(), t.double(), y)
    net = network(program.options.network)
    for name, dtype, tf32 in (("fp32", torch.float32, False), ("tf32", torch.float32, True),
                              ("bf16", torch.bfloat16, False)):
        allow_tf32(tf32)
        for layout in (torch.contiguous_format, torch.channels_last):
            net = net.to(dtype=dtype, memory_format=layout)
            given = (x.to(dtype=dtype, memory_format=layout), t.to(dtype), y)
            work = graph_of(lambda: net(*given))
            ms = 1e3 * seconds_of(work, 20)
            error = ((net(*given).double() - truth).norm() / truth.norm()).item()
            print(f"  {name}, {str(layout)[6:]:<17} {ms:8.2f} ms a call of batch {len(x)}, relative "
                  f"error {error:.1e}", flush=True)
            del work
        net = network(program.options.network)


@torch.no_grad()
def reference(program):
    try:
        from torchdiffeq import odeint
    except ImportError:
        print("reference: left out, torchdiffeq is not installed")
        return
    count, batch, tolerance, checked = 2048, 256, 1e-5, 64
    drawn = program.sample("cifar10-fm-ot", solver="reference", count=count, batch=batch,
                           tolerance=tolerance, dtype="fp32")[1]
    timed = program.folder / "reference.json"
    benchmark(program, "gpu_reference", f"--benchmark_out={timed}", "--benchmark_out_format=json")
    ours = json.loads(timed.read_text())["benchmarks"][0]["real_time"] / 1e3
    noise = drawn["noise"].float()
    allow_tf32(False)
    net = network("cifar10-fm-ot")
    labels = torch.arange(count) % 10

    def solve(begin, end):
        y = labels[begin:end].cuda()

        def field(t, x):
            return net(x, t.expand(len(x)), y)

        ends = torch.tensor([0.0, 1.0], device="cuda")
        return odeint(field, noise[begin:end].cuda(), ends, rtol=tolerance, atol=tolerance,
                      method="dopri5")[-1].cpu()

    solve(0, batch)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    found = torch.cat([solve(i, i + batch) for i in range(0, count, batch)])
    theirs = time.perf_counter() - begun
    report(f"{count} reference samples, fp32, {tolerance:g}, to torchdiffeq's dopri5", ours,
           theirs, "wanted <= 0.77")
    truth = program.sample("cifar10-fm-ot", solver="reference", count=checked, batch=checked,
                           tolerance=1e-7, dtype="fp64")[1]["samples"]
    errors = [(x[:checked].double() - truth.double()).flatten(1).square().mean(1).sqrt()
              for x in (drawn["samples"], found)]
    print(f"  root mean square error of {checked} of them: Bespoke median {errors[0].median():.1e}, "
          f"worst {errors[0].max():.1e}; torchdiffeq {errors[1].median():.1e}, "
          f"{errors[1].max():.1e}")


@torch.no_grad()
def distillation(program):
    batch = program.options.batch or 64
    runs = []
    for iterations in (4, 16):
        folder = program.folder / f"run-{iterations}"
        program.run("distill", "--model", program.options.model, "--nfe", STEPS, "--dtype", "tf32",
                    "--method", "direct", "--iterations", iterations, "--samples", 128,
                    "--batch", batch, "--device", "cuda", "-o", folder)
        runs.append(json.loads((folder / f"nfe-{STEPS:02}" / "summary.json").read_text()))
    calls = [sum(run.get(key, 0) for key in ("forwards", "validation_forwards"))
             for run in runs]
    net = network(program.options.network)
    x, t, y = inputs(batch)
    allow_tf32(True)
    forward = seconds_of(lambda: net(x, t, y), 40)
    graph = seconds_of(graph_of(lambda: net(x, t, y)), 40)
    seconds, more = runs[1]["seconds"] - runs[0]["seconds"], calls[1] - calls[0]
    for name, one in (("bare forwards", forward), ("forwards as graphs", graph)):
        report(f"12 iterations, {more} forwards, to {name} of batch {batch}", seconds,
               more / batch * one, "wanted <= 1.11" if one == forward else "")


def main():
    parts = {"sampling": sampling, "reference": reference, "distillation": distillation,
             "precision": precision}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bespoke", type=Path, default=ROOT / "build/release/bespoke")
    parser.add_argument("--only", choices=parts, nargs="+", default=list(parts))
    parser.add_argument("--network", default="cifar10-fm-ot",
                        help="precision, distillation: TorchScript of 3x32x32 images, a time and "
                             "ten classes")
    parser.add_argument("--model", default="cifar10-fm-ot", help="distillation: the network's card")
    parser.add_argument("--batch", type=int,
                        help="samples of a call; precision: 256, distillation: 64")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        fail("no GPU here: these figures are about one; ./dev bench measures on the CPU")
    if not options.bespoke.is_file():
        fail(f"{options.bespoke} is not built; run ./dev build or give --bespoke")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
          f"{Program(options.bespoke, None).run('--version').strip()}")
    print(f"{'':<62}  {'Bespoke':>12}  {'compared':>12}  {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            parts[name](Program(options.bespoke, Path(folder), options))


if __name__ == "__main__":
    main()
