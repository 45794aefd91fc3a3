#!/usr/bin/env python3
"""Every model card of a folder as a new user would meet it: check, fit, auto, best of the catalogue.

    python3 research/odd_models.py odd && python3 research/wild.py odd
    python3 research/wild.py FOLDER --nfe 4,6,8 --samples 64 --device cuda:0

Conditions that are tensors are read from NAME.conditions.safetensors beside the card, where that
is.

A row of a Markdown table for each card and number of evaluations: what `check` says, and the PSNR
(mean over samples, standard error) against the model's own samples on noise that no solver was made
with, of the fit, of auto and of the best of the catalogue on its best grid, with the calls of the
model and the seconds that the distillations took. Results stay in FOLDER.wild, and a second run goes
on with what is missing."""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time

import numpy as np


def run(options, *words, may_fail=False):
    command = [options.bespoke, *words]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0 and not may_fail:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done


def running(options, card):
    given = []
    path = card[:-len(".json")] + ".conditions.safetensors"
    if os.path.exists(path):
        for name in tensors_of(path):
            given += ["--cond", f"{name}={path}:{name}"]
    return ["--device", options.device, "--batch", str(options.batch), *given]


def verdict(options, card):
    done = run(options, "check", card, *running(options, card), "--count",
               str(options.check_count), may_fail=True)
    if done.returncode != 0:
        return f"refused ({done.returncode})"
    return "warns" if "warning" in done.stderr else "fits"


def tensors_of(path):
    """A safetensors file, read without a library."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header, data = json.loads(file.read(length)), file.read()
    kinds = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])],
                                kinds[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def drawn(options, card, work, name, *words):
    folder = os.path.join(work, name)
    if not os.path.exists(os.path.join(folder, "samples.safetensors")):
        seeds = f"{options.seed}-{options.seed + options.samples - 1}"
        run(options, "sample", "--model", card, "--seeds", seeds, "--space", "sample", "-o", folder,
            *words, *running(options, card))
    return tensors_of(os.path.join(folder, "samples.safetensors"))


def joined(document, tensors):
    """The samples [count, numbers]; those of several tensors side by side."""
    shape = document["sample_shape"]
    names = list(shape) if isinstance(shape, dict) else ["samples"]
    return np.concatenate([tensors[name].reshape(len(tensors[name]), -1).astype(np.float64)
                           for name in names], 1)


def counting(document, tensors):
    """1 where a number counts, [count, numbers]: of masks that are conditions of one tensor."""
    mask = document.get("error_mask")
    if mask is None:
        return np.ones((1, 1))
    name = mask[len("not "):] if mask.startswith("not ") else mask
    values = tensors["condition." + name].astype(np.float64)
    values = 1 - values if mask.startswith("not ") else values
    shape = tensors["samples"].shape
    values = values.reshape(values.shape + (1,) * (len(shape) - values.ndim))
    return np.broadcast_to(values, shape).reshape(len(values), -1)


def decibels(found, truth, counts, peak):
    """Mean and standard error over samples."""
    counts = np.broadcast_to(counts, truth.shape)
    errors = ((found - truth) ** 2 * counts).sum(1) / counts.sum(1)
    each = 10 * np.log10(peak ** 2 / np.maximum(errors, 1e-30))
    return each.mean(), each.std(ddof=1) / math.sqrt(len(each))


def distilled(options, card, work, method):
    """The solver file and what it cost."""
    folder = os.path.join(work, method)
    cost = os.path.join(folder, "cost.json")
    if not os.path.exists(cost):
        begun = time.time()
        run(options, "distill", "--model", card, "--nfe", options.nfe, "-o", folder,
            *(["--method", "fit"] if method == "fit" else []),
            *(["--calls", options.calls] if options.calls and method == "auto" else []),
            *running(options, card))
        with open(cost, "w") as file:
            json.dump({"seconds": time.time() - begun}, file)
    with open(cost) as file:
        seconds = json.load(file)["seconds"]
    path = os.path.join(folder, "bns.solver.json")
    with open(path) as file:
        document = json.load(file)
    calls = document["provenance"].get("reference_evaluations", 0)
    for solver in document["solvers"]:
        own = solver.get("provenance", {})
        calls += own.get("forwards", 0) + own.get("screening_forwards", 0)
    return path, calls, seconds


def best_names(options, card, work):
    """The best of the catalogue at each number of evaluations."""
    path = os.path.join(work, "best.json")
    if not os.path.exists(path):
        done = run(options, "compare", "--model", card, "--solvers", "best", "--nfe", options.nfe,
                   "--count", "8", *running(options, card))
        found = dict(re.findall(r"best at (\d+) NFE is (\S+)", done.stdout + done.stderr))
        with open(path, "w") as file:
            json.dump(found, file)
    with open(path) as file:
        return json.load(file)


def text(figure):
    mean, error = figure
    return f"{mean:.1f} ± {error:.1f}"


def rows_of(options, card):
    with open(card) as file:
        document = json.load(file)
    if "format" not in document or "prediction" not in document:
        return
    name = document.get("name", os.path.splitext(os.path.basename(card))[0])
    work = os.path.join(options.folder.rstrip("/") + ".wild", name)
    os.makedirs(work, exist_ok=True)
    least, most = document.get("value_range", [-1, 1])
    said = verdict(options, card)
    truth = drawn(options, card, work, "truth", "--solver", "reference", "--tolerance", "1e-5")
    best = best_names(options, card, work)
    made = {method: distilled(options, card, work, method) for method in ("fit", "auto")}
    cost = ", ".join(f"{made[m][1]:,} in {made[m][2]:.0f} s" for m in ("fit", "auto"))
    for nfe in options.nfe.split(","):
        def figure(label, solver):
            found = drawn(options, card, work, f"{label}-{nfe}", "--solver", solver, "--nfe", nfe)
            return text(decibels(joined(document, found), joined(document, truth),
                                 counting(document, truth), most - least))
        figures = [figure("fit", made["fit"][0]), figure("auto", made["auto"][0]),
                   figure("best", best[nfe])]
        print(f"| {name} | {said} | {nfe} | {' | '.join(figures)} | {best[nfe]} | {cost} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="model cards, each with its weights beside it")
    parser.add_argument("--bespoke", default="build/release/bespoke", help="the program")
    parser.add_argument("--nfe", default="4,6,8")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--seed", type=int, default=7700, help="of the first sample")
    parser.add_argument("--calls", help="the most calls of auto; as many as it takes otherwise")
    parser.add_argument("--check-count", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    print("PSNR in dB against the model's own samples, mean and standard error over "
          f"{options.samples} samples; calls and seconds of fit and auto for all NFE together\n")
    print("| model | check | NFE | fit | auto | best of the catalogue | which | calls (fit, auto) |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for file in sorted(os.listdir(options.folder)):
        if file.endswith(".json"):
            rows_of(options, os.path.join(options.folder, file))


if __name__ == "__main__":
    main()
