#!/bin/bash
# Packages on a shared file system: what imports read there is recorded, and read ahead in the next run. A slow one is made with
# FUSE, which needs root.
. "$(dirname "$0")/lib.sh"
unset PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED LD_PRELOAD PYTHONPATH PYTHONHOME
python=/usr/bin/python3
[ -x $python ] || skip "no $python"
[ -r /dev/fuse ] && [ "$(id -u)" = 0 ] || skip "no /dev/fuse, or not root"
slow_fs=$(dirname "$(realpath "$0")")/../../bench/slow_fs.py
export HOME=$work/home XDG_STATE_HOME=$work/state
$python -m venv --without-pip venv || skip "no venv module"
site=$(ls -d venv/lib/python3*/site-packages)
mkdir "$site/many" slow
for part in 1 2 3 4 5 6 7 8; do echo "x = $part" >"$site/many/part$part.py"; done
# It waits, so that who reads ahead is ahead also on a busy machine: the reading ends with the imports.
printf 'import time\ntime.sleep(1.5)\nfrom . import part1, part2, part3, part4, part5, part6, part7, part8\n' >"$site/many/__init__.py"
venv/bin/python -c "import many" # whose .pyc files are there from now on
printf 'import many\nprint("ran")\n' >train.py

# on_slow NAME: one run on a file system that nobody has read from yet.
on_slow() {
    $python "$slow_fs" --latency 0.001 --stats "$1.stats" venv slow >slow.log 2>&1 &
    local server=$!
    mounted=$work/slow
    eventually "a mount" grep -q ready slow.log
    rm -rf run
    timeout 100 "$AUTOLAUNCH" --log-dir run --preload auto --nproc-per-node 2 -- slow/bin/python train.py >out.log 2>err.log ||
        fail "exit code $? on the $1 run"
    grep -q "trainer.preload" err.log && fail "ranks started by themselves: $(cat err.log)"
    expect "ranks that ran" 2 "$(cat run/generation-0/rank-*/stdout | grep -c ran)"
    kill $server
    wait $server
    mounted=
}
on_slow first 2>/dev/null
contains "what was read, in the record" run/preload.json "$work/slow/${site#venv/}/many/__pycache__/part8"
on_slow second 2>/dev/null
opens() { sed -n 's/.*"opens": \([0-9]*\).*/\1/p' "$1.stats"; }
[ "$(opens second)" -gt "$(opens first)" ] ||
    fail "files were opened $(opens first) times, and $(opens second) times with some read ahead"
echo "opened: $(opens first), with reading ahead: $(opens second)"
nothing_left
