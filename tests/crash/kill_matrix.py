#!/usr/bin/env python3
"""Kills runs at random moments, fills their disk, turns their clock back and starts two at once; then
runs them to their end and compares every byte with a run that nobody disturbed, but for times and the
command itself.

    python3 tests/crash/kill_matrix.py build/release/bespoke --kills 100

Every job meets every trouble in turn. Exit code 1: something was lost, and its folder is kept."""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

# What each job does, in a folder of its own, and what continues it.
JOBS = {
    "pairs": ("pairs --count 96 --validation 32 --shard 8 --tolerance 1e-9 --trajectories 16 "
              "-o out", ""),
    "fit": ("distill --method fit --nfe 3-6 --samples 96 --tolerance 1e-7 -o out", "--resume"),
    "distill": ("distill --method direct --iterations 6 --nfe 3-5 --samples 96 --tolerance 1e-7 "
                "-o out", "--resume"),
    "train": ("transformer --data ../data.safetensors --patch 4 --width 16 --depth 1 --heads 1 "
              "--batch 16 --warmup 5 --steps 150 --grid-every 40 -o out", "--resume"),
    "compare": ("compare --solvers euler,midpoint,dpm++2m --nfe 4-12+4 --count 128 "
                "--tolerance 1e-9 --cache out/cache --report out/report.html --svg out/svg "
                "--force", ""),
    "sample": ("sample --solver reference --tolerance 1e-11 --count 256 -o out", ""),
    # A minute each time: only where it is asked for.
    "demo": ("demo -o out", ""),
}
USUAL_JOBS = [name for name in JOBS if name != "demo"]
TROUBLES = ["kill", "kill repeatedly", "stop", "full disk", "two at once", "clock back"]
STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
USAGE, INTERRUPTED, BUSY = 2, 130, 3

# The only things that differ between two runs of the same command.
VOLATILE = [(re.compile(rb'"seconds": ?[-+.e0-9]+'), b'"seconds":0'),
            (re.compile(rb'"command": ?"[^"]*"'), b'"command":""'),
            # The last column of the report's table is the time of a sample.
            (re.compile(rb"<td[^>]*>[^<]*</td></tr>"), b"</tr>"),
            (re.compile(rb" --resume"), b""), (re.compile(rb" --force"), b""),
            (re.compile(rb" <span>--(resume|force)</span>"), b"")]

# Every look at the time of day shows a second less.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>
#include <sys/time.h>
static atomic_long looks;
int clock_gettime(clockid_t clock, struct timespec* now) {
  int (*next)(clockid_t, struct timespec*) =
      (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int result = next(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec -= ++looks;
  return result;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(struct timeval* out, void* zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
"""


# Lines of a training's log come by the clock.
UNCOMPARED = {"train": "out/log.jsonl"}


class Lost(Exception):
    pass


def write_data(path):
    """32 tiny images in two classes, as docs/guide/datasets.md has them."""
    numbers = random.Random(0)
    images = bytes(numbers.randrange(256) for _ in range(32 * 8 * 8))
    labels = struct.pack("<32q", *[i % 2 for i in range(32)])
    header = json.dumps({
        "labels": {"dtype": "I64", "shape": [32], "data_offsets": [0, 256]},
        "samples": {"dtype": "U8", "shape": [32, 1, 8, 8], "data_offsets": [256, 256 + 2048]}})
    header = header.encode() + b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + labels + images)


class Job:
    def __init__(self, options, name, folder):
        self.name = name
        self.folder = os.path.join(folder, name)
        words, self.resume = JOBS[name]
        program = os.path.abspath(options.bespoke) + ("-train" if name == "train" else "")
        self.command = [program] + words.split() + ["--threads", "1"]

    def begin(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.join(self.folder, "out"))

    def start(self, again=False, largest_file=None, clock=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

        command = self.command + (self.resume.split() if again else [])
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE,
                                env=dict(os.environ, LD_PRELOAD=clock) if clock else None,
                                preexec_fn=limit if largest_file is not None else None)

    def finish(self):
        run = self.start(again=True)
        said = run.communicate()[1].decode(errors="replace")
        if run.returncode != 0:
            raise Lost(f"{self.name} cannot be continued, exit code {run.returncode}: {said}")

    def result(self):
        """Every file by its name, without what may differ."""
        files = {}
        for place, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    content = file.read()
                for pattern, plain in VOLATILE:
                    content = pattern.sub(plain, content)
                files[os.path.relpath(path, self.folder)] = content
        files.pop(UNCOMPARED.get(self.name), None)
        return files

    def is_done(self):
        return self.name == "demo" and os.path.exists(os.path.join(self.folder, "out/report.html"))

    def measure(self):
        """The undisturbed run."""
        self.begin()
        began = time.monotonic()
        self.finish()
        self.seconds = time.monotonic() - began
        self.expected = self.result()
        self.largest = max(map(len, self.expected.values()))

    def compare(self):
        found = self.result()
        wrong = sorted(name for name in set(found) | set(self.expected)
                       if found.get(name) != self.expected.get(name))
        if wrong:
            raise Lost(f"{self.name}: other than in an undisturbed run: {', '.join(wrong)}")


def build_clock(folder):
    """A library that turns the clock back; none where there is no compiler."""
    source, library = os.path.join(folder, "clock.c"), os.path.join(folder, "clock.so")
    with open(source, "w") as file:
        file.write(CLOCK)
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


class Matrix:
    def __init__(self, options, clock):
        self.clock = clock
        self.troubles = [trouble for trouble in TROUBLES if clock or trouble != "clock back"]
        self.random = random.Random(options.seed)
        self.kills = 0
        self.counts = {}

    def wait(self, job):
        # Loading LibTorch takes the first third or more.
        time.sleep(self.random.uniform(0.2, 1) * job.seconds)

    def disturb(self, process, number, late=None):
        """Ends the process, if it still runs. While libraries load, any signal ends it at once. One
        that comes too late may refuse in the words of `late`."""
        alive = process.poll() is None
        if alive:
            process.send_signal(number)
        said = process.communicate()[1].decode(errors="replace")
        if alive and number == signal.SIGKILL and process.returncode == -signal.SIGKILL:
            self.kills += 1
        elif process.returncode == USAGE and late and late in said:
            return
        elif process.returncode not in (0, INTERRUPTED, BUSY, -number):
            raise Lost(f"exit code {process.returncode}: {said}")

    def kill(self, job, again=False):
        process = job.start(again)
        self.wait(job)
        self.disturb(process, signal.SIGKILL)

    def kill_repeatedly(self, job):
        for attempt in range(5):
            self.kill(job, again=attempt > 0)

    def stop(self, job):
        process = job.start()
        self.wait(job)
        self.disturb(process, self.random.choice(STOPS))

    def full_disk(self, job):
        process = job.start(largest_file=self.random.randrange(job.largest))
        said = process.communicate()[1].decode(errors="replace")
        if process.returncode not in (0, 1) or (process.returncode == 1 and not said.strip()):
            raise Lost(f"{job.name} on a full disk, exit code {process.returncode}: {said}")

    def clock_back(self, job):
        process = job.start(clock=self.clock)
        said = process.communicate()[1].decode(errors="replace")
        if process.returncode != 0:
            raise Lost(f"{job.name} under a clock that goes back, exit code {process.returncode}: {said}")
        job.compare()

    def two_at_once(self, job):
        first, second = job.start(), job.start(again=True)
        self.wait(job)
        # The second may come first, and then its folder is refused to one that begins anew.
        self.disturb(first, signal.SIGKILL, late="holds an earlier run; add --resume")
        if self.random.random() < 0.5:
            self.disturb(second, signal.SIGKILL)
        elif second.wait() not in (0, BUSY):
            raise Lost(f"{job.name} beside another, exit code {second.returncode}: "
                       f"{second.communicate()[1].decode(errors='replace')}")

    def trial(self, job, trouble):
        job.begin()
        getattr(self, trouble.replace(" ", "_"))(job)
        # One that came to its end is not begun again: some refuse that, as they should.
        if not job.is_done():
            job.finish()
        job.compare()
        self.counts[job.name, trouble] = self.counts.get((job.name, trouble), 0) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bespoke", help="the program")
    parser.add_argument("--kills", type=int, default=100, help="at least so many, by SIGKILL")
    parser.add_argument("--jobs", default=",".join(USUAL_JOBS),
                        help="some of " + ", ".join(JOBS))
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    os.environ["OMP_WAIT_POLICY"] = "passive"
    folder = tempfile.mkdtemp(prefix="bespoke_crash_")
    write_data(os.path.join(folder, "data.safetensors"))
    jobs = [Job(options, name, folder) for name in options.jobs.split(",")]
    matrix = Matrix(options, build_clock(folder))
    turn = 0
    try:
        for job in jobs:
            job.measure()
            print(f"{job.name}: {job.seconds:.1f} s undisturbed, {len(job.expected)} files",
                  flush=True)
        while matrix.kills < options.kills:
            # Shifted by one each round, so that every job meets every trouble.
            trouble = matrix.troubles[(turn + turn // len(jobs)) % len(matrix.troubles)]
            matrix.trial(jobs[turn % len(jobs)], trouble)
            turn += 1
    except Lost as lost:
        sys.exit(f"{lost}\nafter {matrix.kills} kills in {turn} trials; left as it is in {folder}")
    shutil.rmtree(folder)
    for job in jobs:
        told = ", ".join(f"{trouble} {matrix.counts.get((job.name, trouble), 0)}"
                         for trouble in TROUBLES)
        print(f"{job.name}: {told}")
    print(f"{matrix.kills} kills in {turn} trials, nothing lost")


if __name__ == "__main__":
    main()
