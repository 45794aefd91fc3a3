#!/usr/bin/env python3
"""What compiling a network brings: the program on one network as TorchScript and as a package.

    python3 bench/compiled.py                                # build/release/bespoke, minutes
    python3 bench/compiled.py --dtypes bf16 --packages out/packages

The network is a transformer on patches of 3 x 32 x 32 images (width 256, depth 8), with random
weights: speed does not depend on them. TorchScript is there twice: as bespoke-export writes it,
with attention in operators that LibTorch 1.13 knows, and traced with PyTorch's fused attention.
Prints a line for each batch, after a check that all give the same samples. Then it distils the
package of the first type.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from gpu import ROOT, STEPS, Program, benchmark, fail  # first: it says where PyTorch is missing

import torch
from torch import nn

sys.path.insert(0, str(ROOT / "python"))

from bespoke import export_model  # noqa: E402

CARD = {"sample_shape": [3, 32, 32], "prediction": "velocity", "schedule": "fm-ot",
        "time": "noise-to-data", "conditions": [{"name": "y", "classes": 10, "null": 10}]}

# Largest difference of samples, relative to the largest value, that rounding explains.
TOLERANCES = {"fp32": 1e-4, "tf32": 2e-2, "bf16": 1e-1, "fp16": 2e-2}


class Block(nn.Module):
    """Attention and a layer for each token, both shifted and scaled by the condition."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width, elementwise_affine=False)
                                    for _ in range(2)])
        self.modulation = nn.Linear(width, 6 * width)
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)
        self.layer = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                   nn.Linear(4 * width, width))

    def attention(self, x):
        batch, tokens, width = x.shape
        heads = self.inward(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.outward(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x, condition):
        changes = self.modulation(nn.functional.silu(condition)).unsqueeze(1).chunk(6, dim=2)
        shift, scale, gate, layer_shift, layer_scale, layer_gate = changes
        x = x + gate * self.attention(self.norms[0](x) * (1 + scale) + shift)
        return x + layer_gate * self.layer(self.norms[1](x) * (1 + layer_scale) + layer_shift)


class Transformer(nn.Module):
    """A velocity of images, given the time and a class, as diffusion transformers compute it."""

    def __init__(self, width=256, depth=8, heads=4, patch=4):
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, stride=patch)
        self.place = nn.Parameter(torch.randn(1, (32 // patch) ** 2, width) / 10)
        self.register_buffer("frequencies", torch.exp(torch.linspace(0, 3, width // 2)))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.classes = nn.Embedding(11, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.out = nn.ConvTranspose2d(width, 3, patch, stride=patch)

    def forward(self, x, t, y):
        grid = self.embed(x)
        angles = t.unsqueeze(1) * self.frequencies
        waves = torch.cat([torch.cos(angles), torch.sin(angles)], 1)
        condition = self.time(waves) + self.classes(y)
        tokens = grid.flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            tokens = block(tokens, condition)
        return self.out(self.norm(tokens).transpose(1, 2).reshape(grid.shape))


@torch.no_grad()
def write_fused(module, card_path, folder):
    """The module traced as it is, with the card of another file; the new card."""
    example = torch.randn(3, 3, 32, 32), torch.rand(3), torch.arange(3)
    torch.jit.trace(module, example, check_trace=False).save(str(folder / "fused.pt"))
    card = {**json.loads(card_path.read_text()), "weights": "fused.pt"}
    del card["weights_sha256"]
    path = folder / "fused.json"
    path.write_text(json.dumps(card))
    return path


def write_package(module, folder, dtype):
    """The card of the module's package in the folder; compiled, in minutes, unless it is there."""
    path = folder / f"{dtype}.json"
    if not path.is_file():
        export_model(module, path, format="aotinductor", device="cuda", dtype=dtype, **CARD)
    return path


def make_module():
    torch.manual_seed(0)
    return Transformer().eval()


def check_same(program, cards, dtype):
    """Ends the benchmark where the samples of the cards differ by more than rounding."""
    drawn = [program.sample(card, count=32, batch=16, nfe=STEPS, solver="euler",
                            dtype=dtype)[1]["samples"] for card in cards.values()]
    for name, samples in zip(cards, drawn):
        difference = ((samples - drawn[0]).abs().max() / drawn[0].abs().max()).item()
        print(f"{dtype}: samples of {name} differ by {difference:.1e} of the largest value")
        if not difference <= TOLERANCES[dtype]:
            fail(f"{name} draws other samples in {dtype}, {TOLERANCES[dtype]:g} is allowed")


def time_batches(program, cards, dtype):
    """Milliseconds of a batch, all cards by turns in one process (bench/gpu_bench.cpp)."""
    timed = program.folder / "cards.json"
    benchmark(program, "gpu_cards", f"--benchmark_out={timed}", "--benchmark_out_format=json",
              environment={"BESPOKE_BENCH_CARDS": ":".join(map(str, cards.values())),
                           "BESPOKE_BENCH_DTYPE": dtype})
    for row in json.loads(timed.read_text())["benchmarks"]:
        ms = [row[f"ms_{k}"] for k in range(len(cards))]
        cells = "".join(f"{value:13.2f} ms" for value in ms)
        ratios = "".join(f"{value / ms[-1]:9.2f}" for value in ms)
        batch = row["name"].split("/")[1]
        print(f"{STEPS} steps, batch {batch:>4}, {dtype:<5}{cells}{ratios}", flush=True)


def distil(program, card, dtype):
    """Shows that a package can be distilled, which needs no gradients."""
    print(program.run("distill", "--model", card, "--method", "fit", "--nfe", STEPS, "--dtype",
                      dtype, "--device", "cuda", "-o", program.folder / "run"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bespoke", type=Path, default=ROOT / "build/release/bespoke")
    parser.add_argument("--dtypes", nargs="+", choices=TOLERANCES, default=["tf32", "bf16"])
    parser.add_argument("--packages", type=Path, help="a folder that keeps the packages")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        fail("no GPU here: these figures are about one")
    if not options.bespoke.is_file():
        fail(f"{options.bespoke} is not built; run ./dev build or give --bespoke")
    module = make_module()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = options.packages or folder
        program = Program(options.bespoke, folder)
        script = export_model(module, folder / "script.json", quiet=True, **CARD).card
        fused = write_fused(module, script, folder)
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
              f"{program.run('--version').strip()}, "
              f"{sum(each.numel() for each in module.parameters()) / 1e6:.1f} M parameters")
        for dtype in options.dtypes:
            cards = {"TorchScript": script, "fused": fused,
                     "package": write_package(module, packages, dtype)}
            check_same(program, cards, dtype)
            print(f"{'':<27}" + "".join(f"{each:>16}" for each in cards) + "  times the package's")
            time_batches(program, cards, dtype)
        distil(program, write_package(module, packages, options.dtypes[0]), options.dtypes[0])


if __name__ == "__main__":
    main()
