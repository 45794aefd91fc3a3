#!/usr/bin/env python3
"""Decibels against all calls of the model that a distillation may spend: a chart and a table.

    python3 bench/calls_chart.py --bespoke build/release/bespoke -o calls

Each budget is a `bespoke distill --calls N` of its own; what they find is compared on unseen samples,
drawn from seed 77. Leaves calls/calls.svg and calls/calls.md. What was finished is not made again, so
that --calls may name more budgets later."""

import argparse
import csv
import io
import json
import math
import subprocess
from pathlib import Path

MODELS = {"cifar10-fm-ot": [], "cifar10-eps-vp": [], "emoji-t2i": ["--guidance", "2"]}
LABELS = {"cifar10-fm-ot": "cifar10-fm-ot", "cifar10-eps-vp": "cifar10-eps-vp",
          "emoji-t2i": "emoji-t2i, w = 2"}
COLOURS = {"cifar10-fm-ot": "#1b6ca8", "cifar10-eps-vp": "#c8553d", "emoji-t2i": "#4c8c4a"}
PROMPTS = Path(__file__).resolve().parents[1] / "models" / "emoji-t2i-prompts.txt"
NFE = 8


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True,
                          text=True).stdout


def prompts(options, model, part):
    """Where the model is told what to draw: other prompts to learn from than to measure by."""
    if model != "emoji-t2i":
        return []
    lines = PROMPTS.read_text().splitlines()
    file = options.output / f"{part}.txt"
    file.write_text("\n".join(lines[-128:] if part == "train" else lines[:128]) + "\n")
    return ["--prompts", file]


def distilled(options, model, calls):
    """The folder of a distillation of so many calls, made now unless it is there."""
    folder = options.output / f"{model}-{calls}"
    if not (folder / f"nfe-{NFE:02d}" / "summary.json").exists():
        run(options.bespoke, "distill", "--model", model, *MODELS[model], "--nfe", NFE,
            "--calls", calls, "-o", folder, *prompts(options, model, "train"))
    return folder


def spent(folder):
    return json.loads((folder / f"nfe-{NFE:02d}" / "summary.json").read_text())["calls"]


def decibels(options, model, folders):
    """PSNR of each on unseen samples, and of the best classical solver."""
    solvers = ",".join(str(folder / "bns.solver.json") for folder in folders)
    table = run(options.bespoke, "compare", "--model", model, *MODELS[model], "--nfe", NFE,
                "--seed", 77, "--count", options.count, "--tolerance", "1e-5", "--format", "csv",
                "--space", "sample", "--solvers", "best," + solvers,
                *prompts(options, model, "test"))
    rows = list(csv.DictReader(io.StringIO(table)))
    found = {row["solver"]: float(row["psnr_db"]) for row in rows}
    return ([found[str(folder / "bns.solver.json")] for folder in folders],
            max(value for name, value in found.items() if "solver.json" not in name))


class Axes:
    """Where figures are drawn: calls along a logarithm, decibels upwards."""

    left, right, top, bottom = 60, 660, 24, 340

    def __init__(self, calls, values):
        self.least, self.most = math.log(min(calls)), math.log(max(calls))
        self.low, self.high = 2 * math.floor(min(values) / 2), 2 * math.ceil(max(values) / 2)

    def x(self, calls):
        share = (math.log(calls) - self.least) / (self.most - self.least)
        return self.left + share * (self.right - self.left)

    def y(self, value):
        share = (value - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def picture(series, classical, budgets):
    """An SVG of {model: [(calls spent, decibels)]}, the best classical solvers dashed."""
    every = [point for points in series.values() for point in points]
    axes = Axes(budgets + [calls for calls, _ in every],
                [value for _, value in every] + list(classical.values()))
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 400" '
             'font-family="sans-serif" font-size="13" fill="#333">',
             '<rect width="700" height="400" fill="white"/>']
    for value in range(axes.low, axes.high + 1, 2):
        parts.append(f'<path d="M{axes.left} {axes.y(value):.1f}H{axes.right}" stroke="#ddd"/>'
                     f'<text x="{axes.left - 8}" y="{axes.y(value) + 4:.1f}" '
                     f'text-anchor="end">{value}</text>')
    for calls in budgets:
        parts.append(f'<text x="{axes.x(calls):.1f}" y="{axes.bottom + 18}" '
                     f'text-anchor="middle">{calls:,}</text>')
    parts.append(f'<text x="360" y="{axes.bottom + 42}" text-anchor="middle">calls of the model, '
                 f'all in</text><text x="{axes.left - 40}" y="14">dB</text>')
    for place, (model, points) in enumerate(series.items()):
        colour = COLOURS[model]
        line = " ".join(f"{axes.x(calls):.1f},{axes.y(value):.1f}" for calls, value in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{axes.x(calls):.1f}" cy="{axes.y(value):.1f}" r="3" '
                  f'fill="{colour}"/>' for calls, value in points]
        height = axes.y(classical[model])
        parts.append(f'<path d="M{axes.left} {height:.1f}H{axes.right}" stroke="{colour}" '
                     'stroke-dasharray="4 4"/>')
        parts.append(f'<text x="{axes.right - 4}" y="{axes.bottom - 60 + 18 * place}" '
                     f'text-anchor="end" fill="{colour}">{LABELS[model]}</text>')
    return "\n".join([*parts, "</svg>", ""])


def table(series, classical, budgets):
    lines = ["| model | best classical | " + " | ".join(f"{calls:,}" for calls in budgets) + " |",
             "|---" * (len(budgets) + 2) + "|"]
    for model, points in series.items():
        cells = [f"{value:.1f} ({calls:,})" for calls, value in points]
        lines.append(f"| {LABELS[model]} | {classical[model]:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bespoke", default="bespoke", help="the program")
    parser.add_argument("--calls", default="100,200,400,1000,3000,10000,30000")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--count", type=int, default=64, help="unseen samples")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    budgets = [int(calls) for calls in options.calls.split(",")]
    series, classical = {}, {}
    for model in options.models.split(","):
        folders = [distilled(options, model, calls) for calls in budgets]
        values, classical[model] = decibels(options, model, folders)
        series[model] = list(zip([spent(folder) for folder in folders], values))
        print(model, series[model], classical[model], flush=True)
        (options.output / "calls.svg").write_text(picture(series, classical, budgets))
        (options.output / "calls.md").write_text(table(series, classical, budgets))


if __name__ == "__main__":
    main()
