#!/bin/bash
# Packages on a shared file system that one node reads and hands on to the others (trainer.preload_from: node). Each node is a set
# of namespaces with a mount of its own of a FUSE server that counts what it gives; the ranks see copies in the place of the files.
. "$(dirname "$0")/machines.sh"
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
# A shared object of some megabytes, all of which is used, as what an import of torch maps; and modules.
$python - "$site/many/big.so" <<'PY'
import glob, sys
library = sorted(glob.glob("/usr/lib/*/libstdc++.so.6") + glob.glob("/lib/*/libc.so.6"))[-1]
with open(sys.argv[1], "wb") as out:
    out.write(open(library, "rb").read() + bytes(range(256)) * 32768)
PY
big=$(stat -c %s "$site/many/big.so")
# And one of which a corner is used, as of a library for CUDA.
$python -c 'import random, sys; sys.stdout.buffer.write(random.Random(3).randbytes(24 << 20))' >"$site/many/wide.so"
for part in 1 2 3 4 5 6 7 8; do echo "x = $part" >"$site/many/part$part.py"; done
cat >"$site/many/__init__.py" <<'PY'
import ctypes, os
big = os.path.join(os.path.dirname(__file__), "big.so")
library = ctypes.CDLL(big)
mmap = ctypes.CDLL(None).mmap
mmap.restype, mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
with open(big, "rb") as file:
    size = os.fstat(file.fileno()).st_size
    mapped = (ctypes.c_ubyte * size).from_address(mmap(None, size, 1, 2, file.fileno(), 0))
used = sum(mapped[at] for at in range(0, size, 4096))
wide = os.path.join(os.path.dirname(__file__), "wide.so")
with open(wide, "rb") as file:
    corner = (ctypes.c_ubyte * (24 << 20)).from_address(mmap(None, 24 << 20, 1, 2, file.fileno(), 0))
used += sum(corner[at << 20] for at in range(4, 8))
from . import part1, part2, part3, part4, part5, part6, part7, part8
PY
venv/bin/python -c "import many" # whose .pyc files are there from now on
cat >train.py <<'PY'
import many
import os
ours = [line.split()[-1] for line in open("/proc/self/maps") if "big.so" in line]
facts, through = os.stat(many.big), os.stat(os.path.join(os.path.dirname(many.big), "..", "many", "big.so"))
assert set(ours) == {many.big} and (facts.st_dev, facts.st_ino) == (through.st_dev, through.st_ino)
try:
    open(many.big, "r+b")
    print("writable")
except OSError:
    pass
# Of a file in pieces all is to be had, and its attributes are the original's.
mounts = [line.split() for line in open("/proc/self/mountinfo")]
served = [line[4] for line in mounts if "fuse.autolaunch" in line]
print("served", served, flush=True)
seen = os.stat(many.wide)
print("wide", seen.st_uid, oct(seen.st_mode), seen.st_nlink, seen.st_mtime_ns, many.corner[(20 << 20) + int(os.environ["RANK"])])
print("ran", many.used, many.part8.x, os.path.basename(many.__file__), len(os.sched_getaffinity(0)) > 0)
PY
nodes=(one two three)
start_machines "${nodes[@]}"

# on_slow NAME OPTION...: a job of three nodes, each with a mount that nobody has read from
on_slow() {
    local name=$1 node i servers=() agents=()
    shift
    rm -rf run ./*.stats
    for node in "${nodes[@]}"; do
        on "$node" $python "$slow_fs" --latency 0.0005 --mb-per-second "${RATE:-400}" --share "$work/share" --stats "$work/$node.stats" \
            "$work/venv" "$work/slow" >"mount-$node" 2>&1 &
        servers+=($!)
    done
    for node in "${nodes[@]}"; do eventually "a mount on $node" grep -q ready "mount-$node"; done
    [ -z "${BEFORE:-}" ] || $BEFORE
    for i in 0 1 2; do
        on "${nodes[i]}" "$AUTOLAUNCH" ${NODES:---nnodes 3 --node-rank $i} --nproc-per-node 2 --rdzv-endpoint one \
            --rdzv-id "nodes-$name" --log-dir run --preload ${PRELOAD:-auto} "$@" -- slow/bin/python ${SCRIPT:-train.py} >"$i.log" 2>&1 </dev/null &
        agents+=($!)
    done
    [ -z "${MEANWHILE:-}" ] || $MEANWHILE
    for i in 0 1 2; do
        wait "${agents[i]}" || [ $i = "${LOST:-}" ] || fail "exit code $? of node $i on the $name run"
    done
    for node in "${nodes[@]}"; do
        (on "$node" grep -q "/tmp/copies/files\|slow/lib" /proc/mounts) && fail "a mount is left on $node"
    done
    kill "${servers[@]}"
    wait "${servers[@]}"
    local last=run/generation-${GENERATION:-0}
    expect "ranks that ran on the $name run" "${RANKS:-6}" "$(cat $last/rank-*/stdout | grep -c '^ran')"
    [ -n "${GENERATION:-}" ] || ! grep -q "start.* by itself" ./?.log || fail "ranks started by themselves on the $name run"
    expect "what ranks saw on the $name run" 1 "$(cat $last/rank-*/stdout | grep '^ran' | sort -u | wc -l)"
}
given() { sed -n 's/.*"bytes": \([0-9]*\).*/\1/p' "$1.stats"; }
# read_by NODE LEAST MOST: how often that file was read, in percent
read_by() {
    local percent=$(($(given "$1") * 100 / big))
    [ "$percent" -ge "$2" ] && [ "$percent" -le "$3" ] || fail "$1 was given $percent % of the file, expected $2 to $3"
}
echo "trainer: {preload_from: node, preload_cache: /tmp/copies}" >handed.yaml
handed=(-c handed.yaml)
copies() { grep -o '"copies":[0-9]*' run/events.jsonl | sort | uniq -c | tr -d '\n'; }

on_slow recording "${handed[@]}"
contains "what is said of the first run" 0.log "this run records what is read; the next one has it handed on"
for node in "${nodes[@]}"; do read_by "$node" 95 160; done
facts=$(grep -h ^wide run/generation-0/rank-?/stdout | sort)
expect "files in pieces of the first run" "served []" "$(cat run/generation-0/rank-?/stdout | grep ^served | sort -u)"
on_slow handed "${handed[@]}"
read_by one 95 150
read_by two 0 20
read_by three 0 20
grep -q "trainer.preload_from" ./?.log && fail "something was read from the shared file system: $(cat ./?.log)"
[ -n "$(copies)" ] || fail "no copies were mounted"
echo "handed on: $(given one), $(given two) and $(given three) bytes of a file of $big;$(copies)"
grep -q writable run/generation-0/rank-0/stdout && fail "a copy can be written to"
is_served() { expect "files in pieces of the $1" "served ['$work/slow/${site#venv/}/many/wide.so']" "$(cat run/generation-0/rank-?/stdout | grep ^served | sort -u)"; }
is_served "second run"
expect "what ranks see of it" "$facts" "$(grep -h ^wide run/generation-0/rank-?/stdout | sort)"
kept() { on "$1" find /tmp/copies/files -name '*.pieces' -printf '%k %s %m\n'; }
for node in "${nodes[@]}"; do
    read -r kilobytes bytes mode < <(kept "$node")
    [ "$bytes" = $((24 << 20)) ] && [ "$kilobytes" -ge 320 ] && [ "$kilobytes" -lt 1000 ] && [ "$mode" = 600 ] ||
        fail "$node keeps $kilobytes kB of the file in pieces, of $bytes bytes, with mode $mode"
done
expect "who may look into the folder" 700 "$(on one stat -c %a /tmp/copies/files)"

# The next job: nobody reads anything of it.
on_slow again "${handed[@]}"
for node in "${nodes[@]}"; do read_by "$node" 0 1; done
is_served "third run"

# A copy that was damaged, and a file that has changed.
on two bash -c 'cd /tmp/copies/files && file=$(ls -S | grep -v pieces | head -1) && chmod 600 "$file" && echo damage | dd of="$file" conv=notrunc status=none seek=9000 &&
    echo damage | dd of="$(ls *.pieces)" conv=notrunc status=none seek=8192' &
wait $!
on_slow damaged "${handed[@]}"
expect "what ranks see of what was damaged" "$facts" "$(grep -h ^wide run/generation-0/rank-?/stdout | sort)"
for node in "${nodes[@]}"; do read_by "$node" 0 20; done
sleep 1
echo "x = 88" >"$site/many/part8.py"
venv/bin/python -c "import many"
on_slow changed "${handed[@]}"
contains "what a changed module says" run/generation-0/rank-5/stdout " 88 "

# A full disk, and a folder that another user has made: that node reads by itself, and says so.
on two bash -c 'rm -rf /tmp/copies && mkdir /tmp/copies && mount -t tmpfs -o size=3m,mode=700 tmpfs /tmp/copies' &
wait $!
on three bash -c 'rm -rf /tmp/copies && mkdir /tmp/copies && chown 12345 /tmp/copies' &
wait $!
on_slow hindered "${handed[@]}"
contains "a full disk" 0.log "two: trainer.preload_from: 1 file (11 MB) is read from the shared file system: cannot write in /tmp/copies/files: No space left on device"
contains "another user's folder" 0.log "three: trainer.preload_from: what imports read comes from the shared file system: the folder /tmp/copies belongs to another user"
read_by two 95 160
read_by three 95 160
on two umount /tmp/copies &
wait $!
for node in "${nodes[@]}"; do on "$node" rm -rf /tmp/copies & wait $!; done

# The mover of a node in the middle is killed while it works.
kill_mover() {
    local pid
    eventually "a copy that begins" on_two_a_part
    for pid in $(pgrep -x autolaunch-move); do
        [ "$(readlink "/proc/$pid/ns/mnt")" = "$(readlink "/proc/${holder_of[two]}/ns/mnt")" ] && kill -9 "$pid"
    done
}
on_two_a_part() { [ -n "$(nsenter -t "${holder_of[two]}" -m ls /tmp/copies/files 2>/dev/null | grep part-)" ]; }
RATE=6 MEANWHILE=kill_mover on_slow killed "${handed[@]}"
contains "a mover that was killed" 0.log "two: trainer.preload_from: what imports read comes from the shared file system: autolaunch-mover has ended"
read_by one 95 150
read_by three 0 20

# Without /dev/fuse on one node that one reads files in pieces where they are; without it on the head's only whole files are handed on.
without_fuse() { on "$1" mount --bind /dev/null /dev/fuse & wait $!; }
with_fuse() { on "$1" umount /dev/fuse & wait $!; }
BEFORE="without_fuse three" on_slow one-without "${handed[@]}"
with_fuse three
contains "a node without FUSE" 0.log "three: trainer.preload_from: 1 file, of which pieces are handed on, is read from the shared file system: no FUSE file system can be mounted"
BEFORE="without_fuse one" on_slow head-without "${handed[@]}"
with_fuse one
contains "a head without FUSE" 0.log "trainer.preload_from: only whole files are handed on: no FUSE file system can be mounted"
expect "files in pieces then" "served []" "$(cat run/generation-0/rank-?/stdout | grep ^served | sort -u)"

# A list of modules records as well, for any program. Whoever serves the files is killed: ranks that need more get an error and no
# wait without end, and those that are started again read the originals.
cat >killed.py <<'PY'
import os, signal, time
import many
first = os.environ["AUTOLAUNCH_GENERATION"] == "0"
if first:
    for pid in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % pid) as stat:
                name, parent = stat.read().split(") ")[0].split("(")[1], int(open("/proc/%s/stat" % pid).read().split(") ")[1].split()[1])
        except (OSError, IndexError):
            continue
        if name == "autolaunch-move" and parent == os.getppid():
            os.kill(int(pid), signal.SIGKILL)
    time.sleep(0.3)
    print(many.corner[13 << 20])
    print("was read")
print("ran", first)
PY
PRELOAD=many on_slow list "${handed[@]}"
contains "what is said of a list" 0.log "this run records what is read; the next one has it handed on"
PRELOAD=many SCRIPT=killed.py GENERATION=1 on_slow unserved "${handed[@]}" --max-restarts 1
contains "who served, and was killed" 0.log "trainer.preload_from: autolaunch-mover has ended, so no more can be read of the files in pieces"
cat run/generation-0/rank-*/stdout | grep -q "was read" && fail "a piece was read that nobody had"

# The agent of a node is killed while files are handed on: the others have them all the same, and a spare that takes its place then.
for node in "${nodes[@]}"; do on "$node" rm -rf /tmp/copies & wait $!; done
one_has_a_part() { # of the two that are no head
    for LOST in 1 2; do
        nsenter -t "${holder_of[${nodes[LOST]}]}" -m ls /tmp/copies/files 2>/dev/null | grep -q part- && return
    done
    return 1
}
kill_agent() {
    local pid
    eventually "a copy that begins" one_has_a_part
    for pid in $(pgrep -x autolaunch); do
        [ "$(readlink "/proc/$pid/ns/mnt")" = "$(readlink "/proc/${holder_of[${nodes[LOST]}]}/ns/mnt")" ] && kill -9 "$pid"
    done
}
LOST=1
RATE=6 MEANWHILE=kill_agent NODES="--nnodes 2:2 --spare-nodes 1" RANKS=4 GENERATION=1 on_slow spare "${handed[@]}"
read_by one 95 150
read_by "${nodes[3 - LOST]}" 0 20

nothing_left
