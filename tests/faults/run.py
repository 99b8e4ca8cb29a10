#!/usr/bin/env python3
"""Runs the corpus of faults, and compares what the first screen names, cause, rank and node, with what happened.

  tests/faults/run.py --autolaunch build/release/launcher/autolaunch            a table
  tests/faults/run.py --autolaunch … --where all --write                        the same into docs/causes.md
  tests/faults/run.py --autolaunch … --only '^cpp' --at-least 95                a part; fails below 95 %

--where: `one` (this machine), `nodes` (four simulated ones, as root), `slurm` (faults of nodes and of Slurm, on a real one
with four nodes, as root), `all`. Each fault is a program, or what a library has printed, recorded from it."""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import corpus
import node_faults
import places
import slurm_faults

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "causes.md"
MARKS = {where: (f"<!-- {where}: made by tests/faults/run.py --write -->", f"<!-- end of {where} -->")
         for where in ("one", "nodes", "slurm")}
TITLES = {"one": "On one node, two ranks", "nodes": "On four simulated nodes, eight ranks", "slurm": "On Slurm, four nodes"}


def run_fault(place, work, fault):
    run_dir = work / f"run {fault.name}".replace(" ", "-")
    cgroup = places.Cgroup(f"autolaunch-fault-{os.getpid()}-{len(fault.name)}") if fault.in_cgroup else None
    if cgroup and cgroup.why_not:
        return fault, None, cgroup.why_not, ""
    try:
        screen = place.run(fault, run_dir, work, cgroup.prefix if cgroup else ())
    except subprocess.TimeoutExpired:
        screen = f"(no end within {places.SECONDS} s)"
    if cgroup:
        cgroup.remove()
    got, wrong = places.judge(place, fault, run_dir, screen)
    return fault, got, wrong, screen


def run_corpus(place, options):
    """Rows (name, cause, who, wrong or nothing), and what was left out."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        work.chmod(0o755)
        corpus.write_scripts(work)
        everything, left_out = corpus.faults(work, sys.executable)
        chosen = [fault for fault in everything if re.search(options.only, fault.name)]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda fault: run_fault(place, work, fault), chosen))
        rows = []
        for fault, got, wrong, screen in results:
            if got is None:
                left_out.append((fault.name, wrong))
                continue
            rows.append((fault.name, fault.cause, "any" if fault.ranks == "any" else str(place.culprit), wrong))
            if options.show and wrong:
                print(f"--- {fault.name}: {wrong}\n{screen}", file=sys.stderr)
        if place.name == "nodes":
            rows += node_faults.run(place, work, options)
    return rows, left_out


def table(where, rows, left_out):
    good = sum(not row[3] for row in rows)
    text = [f"{TITLES[where]}: {good} of {len(rows)} are named right, {100 * good / max(1, len(rows)):.0f} %.", ""]
    text += ["| fault | cause | rank or node | the screen names |", "|---|---|---|---|"]
    if where == "nodes":  # programs are those of the first table
        rows = [row for row in rows if row[3] or row[0].startswith("node ")]
        text.insert(1, "The programs are those above; of them only misses are here.")
    for name, cause, who, wrong in rows:
        text.append(f"| {name} | `{cause}` | {who} | {'**' + wrong + '**' if wrong else 'the same'} |")
    for name, why in left_out:
        text += ["", f"Left out: {name}, because {why}."]
        print(f"left out: {name}: {why}", file=sys.stderr)
    return "\n".join(text) + "\n"


def elsewhere(where, options):
    """The same command where the machines of that place can be reached."""
    binary = Path(options.autolaunch).parent.parent
    environment = dict(os.environ, AUTOLAUNCH_SOURCE_DIR=str(HERE.parent.parent), AUTOLAUNCH_BINARY_DIR=str(binary),
                       AUTOLAUNCH=options.autolaunch)
    command = [sys.executable, __file__, "--autolaunch", options.autolaunch, "--where", where, "--only", options.only,
               "--jobs", str(options.jobs), "--at-least", str(options.at_least)]
    command += ["--write"] * options.write + ["--show"] * options.show + ["--inside"]
    return subprocess.run(["bash", HERE / f"{where}.sh", *command], env=environment).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autolaunch", required=True)
    parser.add_argument("--where", choices=("one", "nodes", "slurm", "all"), default="one")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--at-least", type=float, default=0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--show", action="store_true", help="the screens of misses")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.autolaunch = str(Path(options.autolaunch).resolve())
    if options.where == "all" or (options.where != "one" and not options.inside):
        wanted = ("nodes", "slurm") if options.where == "all" else (options.where,)
        codes = [elsewhere(where, options) for where in wanted]
        if options.where != "all":
            return codes[0]  # 77: skipped, and it was said why
        options.where = "one"
    else:
        codes = []
    if options.where == "slurm":
        rows, left_out = slurm_faults.run(options), []
    else:
        place = {"one": places.OneNode, "nodes": places.FourNodes}[options.where](options.autolaunch)
        rows, left_out = run_corpus(place, options)
    text = table(options.where, rows, left_out)
    print(text, flush=True)
    if options.write:
        begin, end = MARKS[options.where]
        page = PAGE.read_text()
        before, rest = page.split(begin)
        PAGE.write_text(before + begin + "\n\n" + text + "\n" + end + rest.split(end)[1])
    good = sum(not row[3] for row in rows)
    codes.append(0 if rows and 100 * good >= options.at_least * len(rows) else 1)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
