#!/usr/bin/env python3
"""Makes every table of docs/results.md anew, or those named.

    python3 bench/reproduce.py --list
    python3 bench/reproduce.py cifar10-fm-ot constraints-cifar10-fm-ot --device cuda
    python3 bench/reproduce.py --models cards --speech speech --device cuda
    python3 bench/reproduce.py --quick --output out/results    seconds, of an analytic model
    python3 bench/reproduce.py --quick prompts-w2 --output out/results    a table at tiny size
    python3 bench/reproduce.py --from out/results/results      the page, without measuring

A table is a folder of commands under OUTPUT/work. One that was stopped goes on after the last
command that came to its end. What was measured goes to OUTPUT/results/TABLE.json, and from all that
is there and of one version the page OUTPUT/results.md and its charts are written. OUTPUT is docs/
by default."""

import argparse
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from results import page, tables  # noqa: E402
from results.program import Failure, Program, write_text  # noqa: E402
from results.records import Record  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="default: all that can be made")
    parser.add_argument("--list", action="store_true", help="the tables, and what they need")
    parser.add_argument("--quick", action="store_true",
                        help="tiny sizes; unless tables are named, of an analytic model")
    parser.add_argument("--nfe", help="evaluations of tables by NFE, FIRST-LAST+STEP (4-20+2)")
    parser.add_argument("--bespoke", type=Path, default=ROOT / "build/release/bespoke")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda:N")
    parser.add_argument("--dtype", default="fp32", help="precision of the model")
    parser.add_argument("--distill-dtype", help="the same in distillations; tf32 saves time")
    parser.add_argument("--batch", type=int, default=64, help="samples of a call")
    parser.add_argument("--models", type=Path, help="folder of cards of further image models")
    parser.add_argument("--speech", type=Path,
                        help="folder of recordings with gaps, as 'spoken_digits' writes it")
    parser.add_argument("--output", type=Path, default=ROOT / "docs")
    parser.add_argument("--work", type=Path, help="where commands run; default OUTPUT/work, or "
                        "build/results where OUTPUT is docs/")
    parser.add_argument("--from", dest="source", type=Path,
                        help="write the page from the measurements of this folder")
    return parser.parse_args()


def cards_of(folder):
    """The model cards of a folder; other JSON that lies there is passed over."""
    if folder is None:
        return []
    if not folder.is_dir():
        raise Failure(f"--models {folder} is no folder of model cards")
    return sorted(path for path in folder.glob("*.json") if '"sample_shape"' in path.read_text())


def hardware(device):
    if device != "cpu":
        try:
            found = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                                   capture_output=True, text=True, check=True).stdout
            return "one " + found.splitlines()[0]
        except (OSError, subprocess.CalledProcessError, IndexError):
            pass
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
             if line.startswith("model name")] if Path("/proc/cpuinfo").exists() else []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} CPU core{'s' * (cores != 1)} ({names[0] if names else platform.machine()})"


def version(binary):
    """Of the program, and of what it computes with, which may differ from machine to machine."""
    if not binary.is_file():
        raise Failure(f"{binary} is not built; run ./dev build or give --bespoke")
    printed = subprocess.run([str(binary), "--version"], capture_output=True, text=True,
                             check=True).stdout.strip()
    program, _, library = printed.partition(" (")
    return program, library.rstrip(")")


def chosen(options):
    """The tables asked for, in the order of the page."""
    recordings = options.speech and options.speech.resolve()
    known = tables.every(cards_of(options.models), recordings)
    if options.quick:
        known = tables.quick() + (known if options.tables else [])
    if options.speech and not (options.speech / "train" / "manifest.jsonl").is_file():
        raise Failure(f"--speech {options.speech} has no train/manifest.jsonl: make the folder "
                      "with build/release/teachers/spoken_digits")
    names = [table.name for table in known]
    for name in options.tables:
        if name not in names:
            further = name.startswith("card-") or name == tables.CallsByModel.name
            where = " (tables of further models need --models)" if further else ""
            raise Failure(f"there is no table '{name}'{where}; there are {', '.join(names)}")
    return [table for table in known if not options.tables or table.name in options.tables]


def program_of(options, name):
    everywhere = ["--device", options.device, "--batch", str(options.batch)]
    dtypes = {"distill": options.distill_dtype or options.dtype}
    work = options.work or (ROOT / "build/results" if options.output == ROOT / "docs"
                            else options.output / "work")

    def machine(command):  # the demo chooses for itself
        words = [*everywhere, "--dtype", dtypes.get(command, options.dtype)]
        return [] if command == "demo" else words
    return Program(options.bespoke.resolve(), work / name, machine)


def check_device(options, table):
    """Before minutes are spent: does the program run a model there?"""
    model = "analytic:mixture" if options.quick else "cifar10-fm-ot"
    program_of(options, table.name).run("check", "sample", "--model", model, "--solver", "euler",
                                        "--nfe", 1, "--count", 1, "-o", "check")


def measure(options, table, program_version, library):
    program = program_of(options, table.name)
    if table.model.prepare:
        table.model.prepare(program.folder)
    record = table.measure(program, tables.sizes_of(table, options.quick, options.nfe))
    record.commands, record.seconds = program.commands, program.seconds
    record.version, record.made = program_version, datetime.date.today().isoformat()
    record.hardware = f"{hardware(options.device)}, {options.dtype}"
    if options.distill_dtype:
        record.hardware += f" (distilled in {options.distill_dtype})"
    record.hardware += f", {library}"
    record.write(options.output / "results")
    print(f"{table.name}: {page.minutes(record.seconds)}", flush=True)


def records_of(folder):
    """Measurements of one version, the one that measured last, in the order of the page."""
    records = [Record.read(path) for path in sorted(folder.glob("*.json"))]
    if not records:
        raise Failure(f"{folder} holds no measurements")
    newest = max(records, key=lambda record: record.made).version
    for record in records:
        if record.version != newest:
            print(f"left out: {record.name} is of {record.version}, not of {newest}")
    names = [table.name for table in tables.quick() + tables.every([], None)]
    groups = list(page.GROUPS)

    def place(record):  # those of further models come last
        return (groups.index(record.group),
                names.index(record.name) if record.name in names else len(names), record.name)
    return sorted((record for record in records if record.version == newest), key=place)


def write_page(source, output):
    records = records_of(source)
    page.write_charts(records, output / "pictures/results")
    write_text(output / "results.md", page.page(records))
    print(f"{output / 'results.md'}: {len(records)} tables")


def main():
    options = parsed()
    if options.source:
        return write_page(options.source, options.output)
    wanted = chosen(options)
    if options.list:
        for table in wanted:
            print(f"{table.name:32} {table.group}")
        if options.models is None:
            print("With --models FOLDER also a table for each model card there, card-NAME, and "
                  "calls-cards for all.")
        return None
    made_with = version(options.bespoke)
    options.output.mkdir(parents=True, exist_ok=True)
    check_device(options, wanted[0])
    if options.models is None and not options.quick and not options.tables:
        print("left out: tables of further models, which need --models FOLDER")
    for table in wanted:
        measure(options, table, *made_with)
    return write_page(options.output / "results", options.output)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"reproduce: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
