#!/usr/bin/env python3
"""How often `bespoke check` is right: true cards with many seeds, and every single mistake in them.

    python3 research/card_check_table.py models/*.json teacher/model.json --seeds 20
    python3 research/card_check_table.py teacher/model.json --data photos.zip

Prints a row of a Markdown table per card, then every mistake that was missed or put down to
another key. True cards must never be refused; the exit code is 1 if one was."""

import argparse
import concurrent.futures
import copy
import json
import os
import re
import subprocess
import sys
import tempfile

PREDICTIONS = ["velocity", "noise", "data", "v", "edm"]
SCHEDULES = ["fm-ot", "cosine", "vp", "edm", "ddpm-linear", "ddpm-scaled-linear", "ddpm-cosine"]
# The same path but for its levels: no mistake.
TWINS = [{"vp", "ddpm-linear"}, {"cosine", "ddpm-cosine"}]
OPPOSITE = {"noise-to-data": "data-to-noise", "data-to-noise": "noise-to-data",
            "sigma": "log-sigma", "log-sigma": "sigma"}


def mistakes(card):
    """(key, value, card) for every single wrong declaration."""
    for prediction in PREDICTIONS:
        if prediction != card["prediction"]:
            yield changed(card, "prediction", prediction)
    time = card["time"]
    if time["convention"] in OPPOSITE:
        yield changed(card, "time.convention", OPPOSITE[time["convention"]])
        yield changed(card, "time.scale", 1000 if time.get("scale", 1) == 1 else 1)
    by_sigma = time["convention"] in ("sigma", "log-sigma")
    for name in SCHEDULES:
        true = card["schedule"]["name"]
        if name == true or {name, true} in TWINS or (by_sigma and name in ("fm-ot", "cosine")):
            continue
        yield changed(card, "schedule", {"name": name})


def changed(card, key, value):
    wrong = copy.deepcopy(card)
    place = wrong
    *outer, last = key.split(".")
    for name in outer:
        place = place[name]
    place[last] = value
    name = value["name"] if isinstance(value, dict) else value
    return key, f"{key} {name}", wrong


def check(options, folder, card, seed):
    """(verdict, keys named): fits, warned, refused or the exit code."""
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".json", delete=False) as file:
        json.dump(card, file)
    path = file.name
    command = [options.bespoke, "check", path, "--seed", str(seed)] + options.more
    run = subprocess.run(command, capture_output=True, text=True)
    said = re.search(r"with (.*) its denoising error", run.stderr)
    keys = {change.split()[0] for change in said.group(1).split(" or ")} if said else set()
    if run.returncode == 3 and said:
        return "refused", keys
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {run.returncode}\n{run.stderr}")
    return ("warned" if "warning" in run.stderr else "fits"), keys


def row_of(options, path, misses):
    with open(path) as file:
        card = json.load(file)
    here = os.path.dirname(os.path.abspath(path))
    card["weights"] = os.path.join(here, card["weights"])
    for part in {"decoder", "encoder"} & card.keys():
        card[part]["weights"] = os.path.join(here, card[part]["weights"])
    name = card.get("name", os.path.basename(here))
    true = {"fits": 0, "warned": 0, "refused": 0}
    wrong = {"refused": 0, "warned": 0, "other key": 0, "missed": 0}
    wrong_cards = [(key, what, mistake, seed) for key, what, mistake in mistakes(card)
                   for seed in range(options.wrong_seeds)]
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        verdicts = pool.map(lambda seed: check(options, folder, card, seed), range(options.seeds))
        found = pool.map(lambda wrong: check(options, folder, wrong[2], wrong[3]), wrong_cards)
        for verdict, _ in verdicts:
            true[verdict] += 1
        for (key, what, _, seed), (verdict, keys) in zip(wrong_cards, found):
            outcome = verdict if key in keys else "other key"
            if verdict == "fits":
                outcome = "missed"
            wrong[outcome] += 1
            if outcome in ("missed", "other key"):
                named = ", ".join(sorted(keys)) or "no key"
                misses.append(f"{name}, {what}, seed {seed}: {verdict}, names {named}")
    path_name = f"{card['prediction']}, {card['schedule']['name']}"
    figures = list(true.values()) + list(wrong.values())
    print(f"| {name} | {path_name} | " + " | ".join(map(str, figures)) + " |", flush=True)
    return true["refused"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cards", nargs="+", help="true model cards")
    parser.add_argument("--bespoke", default="build/release/bespoke", help="the program")
    parser.add_argument("--seeds", type=int, default=20, help="of every true card")
    parser.add_argument("--wrong-seeds", type=int, default=1, help="of every wrong one")
    parser.add_argument("--jobs", type=int, default=1, help="checks at a time")
    parser.add_argument("--count", help="passed on")
    parser.add_argument("--data", help="passed on")
    parser.add_argument("--threads", help="passed on")
    options = parser.parse_args()
    options.more = [word for name in ("count", "data", "threads") if getattr(options, name)
                    for word in (f"--{name}", getattr(options, name))]
    print("| network | prediction, path | fits | warned | refused | wrong: refused | warned | "
          "other key | missed |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    misses = []
    refused = sum(row_of(options, path, misses) for path in options.cards)
    print("\n" + "\n".join(f"- {miss}" for miss in misses))
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
