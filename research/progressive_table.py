#!/usr/bin/env python3
"""The published table "BNS vs Progressive Distillation" on one model: students that were trained to
take few steps beside solvers that were found for the model as it is.

    python3 research/progressive_table.py --model cifar10-fm-ot --data cifar10.zip --real test.safetensors \\
        --features models/cifar10-features.pt -o table

Leaves table/table.md and a JSON file for each row. What was stopped goes on with the same command;
what was finished is not made again. --match-features OTHER.pt adds a solver of the fewest evaluations
that is matched to the distribution, in features that no column measures; --also NAME=FILE:NFE adds a
solver that was found otherwise.

Figures: Fréchet distances in the features, to real data and to the model's own samples from the same
noise; PSNR in dB to those samples, with its standard error; the spread of features within a class
beside that of the model's samples, 1 = as varied; forwards, seconds and examples spent; parameters
trained."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy
import torch

DTYPES = {"F64": numpy.float64, "F32": numpy.float32, "F16": numpy.float16, "U8": numpy.uint8,
          "I64": numpy.int64}
COLUMNS = [("NFE", "nfe", "{:d}"), ("FD to data", "fd_data", "{:.3f}"),
           ("FD to the model's samples", "fd_model", "{:.3f}"), ("PSNR", "psnr", "{:.2f}"),
           ("its error", "psnr_error", "{:.2f}"),
           ("spread", "spread", "{:.3f}"), ("forwards", "forwards", "{:,d}"),
           ("seconds", "seconds", "{:.0f}"), ("training set", "examples", "{:,d}"),
           ("parameters", "parameters", "{:,d}")]


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        begin = file.tell()
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            file.seek(begin + first)
            values = numpy.frombuffer(file.read(last - first), DTYPES[entry["dtype"]])
            tensors[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return tensors


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=2) + "\n")
    os.replace(part, path)


class Table:
    def __init__(self, options):
        self.options = options
        self.folder = Path(options.output)
        self.device = torch.device("cuda" if options.device != "cpu" and torch.cuda.is_available()
                                   else "cpu")
        self.extractor = torch.jit.load(options.features, map_location="cpu").float().eval()
        self.extractor.to(self.device)

    def bespoke(self, *words, program=None):
        command = [program or self.options.bespoke, *map(str, words), "--device",
                   self.options.device]
        print("$ " + " ".join(command), flush=True)
        begun = time.monotonic()
        done = subprocess.run(command)
        if done.returncode != 0:
            sys.exit(f"progressive_table: exit code {done.returncode}")
        return time.monotonic() - begun

    def samples(self, model, solver, nfe, name):
        """Of the same noise and classes whatever the model: [count, ...] in [-1, 1]."""
        folder = self.folder / "samples" / name
        file = folder / "samples.safetensors"
        if not file.exists():
            steps = ["--nfe", nfe] if nfe else ["--tolerance", self.options.tolerance]
            conditions = ["--cond", self.options.cond] if self.options.cond else []
            self.bespoke("sample", "--model", model, *conditions, "--seed", self.options.seed,
                         "--count", self.options.count, "--solver", solver, *steps, "--batch",
                         self.options.batch, "-o", folder)
            for picture in folder.glob("0*.png"):
                picture.unlink()
        return read_safetensors(file)["samples"].float()

    @torch.no_grad()
    def features(self, samples):
        if samples.dtype == torch.uint8:
            samples = samples.float() / 127.5 - 1
        parts = [self.extractor(part.to(self.device).float()).double().cpu()
                 for part in samples.split(1000)]
        return torch.cat(parts)

    def real_features(self):
        tensors = read_safetensors(self.options.real)
        return tensors["features"].double() if "features" in tensors \
            else self.features(tensors["samples"])

    def labels(self):
        """Which samples are of one class, in turn as --cond repeats."""
        classes = 10 if self.options.cond else 1
        return torch.arange(self.options.count) % classes

    def figures(self, samples):
        found = self.features(samples)
        truth = self.samples(self.options.model, "reference", None, "model")
        wanted = self.features(truth)
        errors = (samples.double() - truth.double()).flatten(1).square().mean(1)
        decibels = None if errors.max() == 0 else 10 * torch.log10(4 / errors)
        error = None if decibels is None else decibels.std().item() / len(decibels) ** 0.5
        return {"fd_data": frechet(found, self.real_features()),
                "fd_model": frechet(found, wanted),
                "psnr": None if decibels is None else decibels.mean().item(),
                "psnr_error": error,
                "spread": spread(found, self.labels()) / spread(wanted, self.labels())}

    def row(self, name, make):
        """A row's figures, made once."""
        path = self.folder / "rows" / (name.replace(" ", "-").replace("/", "-") + ".json")
        if not path.exists():
            write_json(path, {"name": name, **make()})
        return json.loads(path.read_text())


def frechet(left, right):
    """Of two sets of features, as Gaussians."""
    mean = (left.mean(0) - right.mean(0)).square().sum()
    a, b = (torch.cov(x.T) for x in (left, right))
    values, vectors = torch.linalg.eigh(a)
    root = vectors * values.clamp_min(0).sqrt() @ vectors.T
    between = torch.linalg.eigvalsh(root @ b @ root).clamp_min(0).sqrt().sum()
    return max(0.0, (mean + a.trace() + b.trace() - 2 * between).item())


def spread(features, labels):
    """The deviation of features within their class."""
    total = sum((features[labels == c] - features[labels == c].mean(0)).square().sum()
                for c in labels.unique())
    return (total / len(features)).sqrt().item()


def distil_students(table):
    """The students, once they are all there: what each has cost, by its steps."""
    options, folder = table.options, table.folder / "students"
    last = min(options.nfe)
    if not (folder / f"steps-{last:02}" / "model.json").exists():
        data = [word for source in options.data for word in ("--data", source)]
        table.bespoke("progressive", "--model", options.model, *data,
                      *(["--flip"] if data else ["--samples", options.samples]), "--from",
                      options.first, "--to", last, "--updates", options.updates, "--batch",
                      options.train_batch, "--learning-rate", options.learning_rate,
                      "-o", folder, *(["--resume"] if (folder / "options.json").exists() else []),
                      program=options.trainer)
    forwards, seconds, spent = 0, 0, {}
    steps = options.first
    while steps > last:
        steps //= 2
        stage = folder / f"steps-{steps:02}"
        summary = json.loads((stage / "summary.json").read_text())
        forwards += summary["forwards"]
        if not options.data and steps == options.first // 2:
            forwards += options.first * summary["training_samples"]
        seconds += json.loads((stage / "log.jsonl").read_text().splitlines()[-1])["seconds"]
        spent[steps] = {"forwards": forwards, "seconds": seconds,
                        "examples": summary["training_samples"],
                        "parameters": summary["parameters"]}
    return spent


def student_row(table, spent, nfe):
    folder = table.folder / "students" / f"steps-{nfe:02}"
    samples = table.samples(folder / "model.json", folder / "ddim.solver.json", nfe, f"pd-{nfe}")
    return {"nfe": nfe, **table.figures(samples), **spent[nfe]}


def distil_solver(table, nfe, matched):
    """The folder of a solver of so many evaluations; each has its own run, and pays for all of
    it."""
    options = table.options
    folder = table.folder / "solvers" / (f"nfe-{nfe:02}" + ("-matched" if matched else ""))
    cost = folder / "cost.json"
    if not cost.exists():
        begun = ["--resume"] if (folder / "options.json").exists() else []
        wanted = ["--match", "both", "--features", options.match_features, "--match-samples",
                  options.match_samples, "--calls", options.match_calls] if matched else \
            ["--calls", options.calls]
        seconds = table.bespoke("distill", "--model", options.model, "--nfe", nfe, *wanted,
                                "--samples", options.pairs, "--dtype",
                                "tf32" if table.device.type == "cuda" else "fp32", *begun, "-o",
                                folder)
        write_json(cost, {"seconds": seconds})
    return folder


def solver_row(table, nfe, matched=False):
    folder = distil_solver(table, nfe, matched)
    solver = folder / "bns.solver.json"
    summary = json.loads((folder / f"nfe-{nfe:02}" / "summary.json").read_text())
    examples = table.options.pairs + (table.options.match_samples if matched else 0)
    samples = table.samples(table.options.model, solver, nfe, folder.name)
    return {"nfe": nfe, **table.figures(samples), "forwards": summary["calls"] + summary["vjps"],
            "seconds": json.loads((folder / "cost.json").read_text())["seconds"],
            "examples": examples, "parameters": nfe * (nfe + 5) // 2}


def plain_row(table, solver, nfe, label):
    samples = table.samples(table.options.model, solver, nfe, label)
    return {"nfe": nfe, **table.figures(samples)}


def write_table(table, rows):
    lines = ["| | " + " | ".join(title for title, _, _ in COLUMNS) + " |",
             "|---|" + "---|" * len(COLUMNS)]
    for row in rows:
        cells = [form.format(row[key]) if row.get(key) is not None else ""
                 for _, key, form in COLUMNS]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    (table.folder / "table.md").write_text(text)
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bespoke", default="bespoke", help="the program")
    parser.add_argument("--trainer",
                        help="the program that trains students (default: bespoke-train beside it)")
    parser.add_argument("--model", default="cifar10-fm-ot", help="name or card")
    parser.add_argument("--data", action="append", default=[],
                        help="what the students train on; repeatable (default: own samples)")
    parser.add_argument("--samples", type=int, default=50000, help="own samples, without --data")
    parser.add_argument("--real", required=True,
                        help=".safetensors of real images (samples) or of their features")
    parser.add_argument("--features", required=True, help="TorchScript of the features")
    parser.add_argument("--nfe", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--first", type=int, default=64, help="steps of the first teacher")
    parser.add_argument("--updates", default="4000,4000,5000,8000", help="of each halving")
    parser.add_argument("--train-batch", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--calls", type=int, default=60000, help="to spend on a solver, all in")
    parser.add_argument("--pairs", type=int, default=96, help="samples that solvers learn from")
    parser.add_argument("--match-features",
                        help="TorchScript of other features, to match a solver in")
    parser.add_argument("--match-samples", type=int, default=512, help="that it is matched to")
    parser.add_argument("--match-calls", type=int, default=250000, help="to spend on it, all in")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=FILE:NFE",
                        help="a row for another solver")
    parser.add_argument("--cond", default="y=0-9", help="classes; empty where there are none")
    parser.add_argument("--count", type=int, default=10000, help="samples that are measured")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--tolerance", default="1e-5", help="of the model's own samples")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--device", default="auto")
    parser.add_argument("-o", "--output", required=True)
    table = Table(parser.parse_args())
    options = table.options
    rows = [table.row("the model", lambda: plain_row(table, "reference", None, "model"))]
    for nfe in options.nfe:
        rows.append(table.row(f"DDIM {nfe}",
                              lambda: plain_row(table, "ddim", nfe, f"ddim-{nfe}")))
    for nfe in options.nfe:
        rows.append(table.row(f"BNS {nfe}", lambda: solver_row(table, nfe)))
        write_table(table, rows)
    if options.match_features:
        nfe = min(options.nfe)
        rows.append(table.row(f"BNS {nfe} matched", lambda: solver_row(table, nfe, True)))
    for number, text in enumerate(options.also):
        name, _, rest = text.partition("=")
        file, _, nfe = rest.rpartition(":")
        rows.append(table.row(name, lambda: plain_row(table, file, int(nfe),
                                                      f"also-{number}")))
    spent = distil_students(table)
    for nfe in options.nfe:
        rows.append(table.row(f"PD {nfe}", lambda: student_row(table, spent, nfe)))
    write_table(table, rows)


if __name__ == "__main__":
    main()
