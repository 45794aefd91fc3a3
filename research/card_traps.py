#!/usr/bin/env python3
"""What happens where a card leaves out what a model needs, on the models of research/odd_models.py.

    python3 research/odd_models.py odd && python3 research/card_traps.py odd

A row of a Markdown table for each trap: what was changed in the true card, what `check` says of the
wrong one, and what its exact samples are beside those of the true card from the same noise: how far
apart (PSNR), their deviation and how many values lie outside [-1, 1]."""

import argparse
import copy
import json
import os

import numpy as np

from wild import joined, run, running, tensors_of

TRAPS = [
    ("clipped", "no `clip`", lambda card: card.pop("clip")),
    ("clipped", "betas not clipped at both ends", lambda card: card.update(
        schedule={"name": "ddpm-cosine", "steps": 300})),
    ("ve-score", "no `end`, no `denoise`", lambda card: card.update(
        schedule={"name": "ve-power", "sigma": 25})),
    ("ve-score", "no `denoise`", lambda card: card["schedule"].pop("denoise")),
    ("ve-score", "`noise` for `score`", lambda card: card.update(prediction="noise")),
    ("truncated", "no `beta_end`", lambda card: card["schedule"].pop("beta_end")),
    ("integer-time", "no `integer`", lambda card: card["time"].pop("integer")),
    ("learned-variance", "no `extra_channels`", lambda card: card.pop("extra_channels")),
    ("no-time", "a time", lambda card: card.update(time={"convention": "sigma"})),
    ("no-time", "no `sigma_min`, no `denoise`", lambda card: card.update(
        schedule={"name": "edm", "sigma_max": 10})),
    ("channels-last", "no `layout`", lambda card: card.pop("layout")),
    ("channels-last", "time the other way", lambda card: card.update(
        time={"convention": "noise-to-data"})),
    ("quadratic", "linear betas", lambda card: card.update(
        schedule={**card["schedule"], "name": "ddpm-linear"})),
    ("two-tensors", "the parts in the other order", lambda card: card.update(
        sample_shape=dict(reversed(card["sample_shape"].items())))),
]


def exact_samples(options, card, folder):
    """(Samples side by side, None), or (None, what was wrong)."""
    done = run(options, "sample", "--model", card, "--solver", "reference", "--tolerance", "1e-3",
               "--seeds", f"0-{options.samples - 1}", "-o", folder, *running(options, card),
               may_fail=True)
    if done.returncode != 0:
        return None, last_sentence(done.stderr)
    with open(card) as file:
        document = json.load(file)
    return joined(document, tensors_of(os.path.join(folder, "samples.safetensors"))), None


def last_sentence(text):
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def said_of(options, card):
    """The verdict of check and its sentence."""
    done = run(options, "check", card, *running(options, card), "--count", "4", may_fail=True)
    told = [line for line in (done.stderr + done.stdout).splitlines()
            if "warning" in line or "Warning" in line]
    if done.returncode != 0:
        return f"refused: {last_sentence(done.stderr)}"
    return told[0].strip() if told else "fits"


def row_of(options, name, what, change):
    path = os.path.join(options.folder, name + ".json")
    with open(path) as file:
        card = json.load(file)
    wrong = copy.deepcopy(card)
    change(wrong)
    trap = os.path.join(options.folder, f".trap-{os.getpid()}.json")
    try:
        with open(trap, "w") as file:
            json.dump(wrong, file)
        work = os.path.join(options.folder.rstrip("/") + ".traps", name)
        truth, _ = exact_samples(options, path, work)
        found, problem = exact_samples(options, trap, work + "-wrong")
        said = said_of(options, trap).replace(trap, "the card").replace("|", "/")
    finally:
        os.unlink(trap)
    if found is None or found.shape != truth.shape:
        return f"| {name} | {what} | {said} | not drawn | | |"
    apart = 10 * np.log10(4 / np.maximum(((found - truth) ** 2).mean(1), 1e-30)).mean()
    outside = (np.abs(found) > 1.01).mean()
    sizes = f"{found.std():.2f} ({truth.std():.2f})"
    return (f"| {name} | {what} | {said} | {apart:.1f} dB | {sizes} | {outside:.0%} "
            f"({(np.abs(truth) > 1.01).mean():.0%}) |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="what research/odd_models.py wrote")
    parser.add_argument("--bespoke", default="build/release/bespoke", help="the program")
    parser.add_argument("--only", help="names of models with commas between; all otherwise")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    print("| model | the card has | check | to the true samples | deviation (true) | "
          "outside (true) |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, what, change in TRAPS:
        if options.only and name not in options.only.split(","):
            continue
        print(row_of(options, name, what, change), flush=True)


if __name__ == "__main__":
    main()
