#!/usr/bin/env python3
"""What printing costs ranks: C programs whose stdout is a log, line by line and as stdio buffers a file, and mpirun's.

    bench/output.py BUILD_DIRECTORY [--ranks 8] [--mb-per-second 50] [--seconds 5] [--directory DIR] [--peers]

Each rank prints numbered lines of 100 bytes by printf. `plain` are the same processes with a shell's `> file`: whole
buffers, and nothing between them and the disk; `plain, by lines` has `stdbuf -oL` in front. Per way: MB/s a rank, CPU time
a rank as a ratio to plain's, and whether all lines are in the files. A rank that cannot print as fast as asked takes longer.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

LINE = 100


def told(texts):
    found = [re.search(r"(\d+) lines, ([\d.]+) s, ([\d.]+) s of a CPU", text) for text in texts]
    if not all(found):
        sys.exit(f"a rank did not end as it should: {texts}")
    return [(int(f[1]), float(f[2]), float(f[3])) for f in found]


def plain(program, options, folder, words):
    streams = [(open(f"{folder}/out-{rank}", "ab"), open(f"{folder}/err-{rank}", "wb")) for rank in range(options.ranks)]
    ranks = [subprocess.Popen(words + program, stdout=out, stderr=err) for out, err in streams]
    for rank in ranks:
        rank.wait()
    return sorted(glob.glob(f"{folder}/out-*")), sorted(glob.glob(f"{folder}/err-*"))


def launched(program, options, folder, words):
    subprocess.run([f"{options.build}/launcher/autolaunch", "-q", "--log-dir", folder, "-n", str(options.ranks), *words,
                    *program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    return [sorted(glob.glob(f"{folder}/generation-0/rank-*/{name}")) for name in ("stdout", "stderr")]


def mpirun(program, options, folder, words):
    subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(options.ranks), "--output-filename",
                    folder, *program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return [sorted(glob.glob(f"{folder}/*/rank.*/{name}")) for name in ("stdout", "stderr")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mb-per-second", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--directory", default=None)
    parser.add_argument("--peers", action="store_true", help="mpirun, where it is installed")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    program = [f"{options.build}/bench/printing", str(options.mb_per_second), str(options.seconds)]
    ways = [("plain", plain, []), ("plain, by lines", plain, ["stdbuf", "-oL"]),
            ("autolaunch, as buffered", launched, ["--no-line-buffering"]), ("autolaunch", launched, []),
            ("autolaunch, terminals", launched, ["--stdio", "pty"])]
    if options.peers and shutil.which("mpirun"):
        ways.append(("mpirun", mpirun, []))
    floor = None
    complete = True
    for name, run, words in ways:
        with tempfile.TemporaryDirectory(prefix="autolaunch-output-", dir=options.directory) as folder:
            logs, ends = run(program, options, folder, words)
            numbers = told([open(end).read() for end in ends])
            whole = len(logs) == options.ranks and all(
                os.path.getsize(log) == lines * LINE for log, (lines, _, _) in zip(logs, numbers))
        complete = complete and whole
        cpu = sum(n[2] for n in numbers) / len(numbers)
        floor = floor or cpu
        speed = min(n[0] * LINE / 1e6 / n[1] for n in numbers)
        print(f"{name:25} {speed:6.1f} MB/s a rank   {cpu:6.2f} s of a CPU a rank, {cpu / floor:5.2f} x plain   "
              f"{'complete' if whole else 'NOT COMPLETE'}", flush=True)
    sys.exit(0 if complete else 1)


if __name__ == "__main__":
    main()
