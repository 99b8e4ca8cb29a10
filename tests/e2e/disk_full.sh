#!/bin/bash
# A full disk under the run directory ends with a code and a sentence, not with a hang or a crash.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" -eq 0 ] || skip "needs root to mount a small file system"
mkdir small
mount -t tmpfs -o size=64k tmpfs small 2>mount.log || skip "cannot mount a tmpfs: $(cat mount.log)"
mounted=$work/small

# Filled while the job runs: ranks see ENOSPC, autolaunch goes on and reports their end.
timeout 60 "$AUTOLAUNCH" --nproc-per-node 2 --log-dir small/run "$misbehave" flood:5000,exit:0 >out.log 2>err.log </dev/null
expect "exit code when the disk fills up" 0 "$?"

# Full from the start.
head -c 1000000 /dev/zero >small/filler 2>/dev/null
timeout 60 "$AUTOLAUNCH" --nproc-per-node 2 --log-dir small/other/run /bin/true >out.log 2>err.log </dev/null
expect "exit code on a full disk" 73 "$?"
contains "the reason" err.log "No space left on device"
nothing_left

# Room for the run directory's four files, and for no folder in it.
umount small && mounted=
mount -t tmpfs -o size=1m,nr_inodes=20 tmpfs small || fail "cannot mount a tmpfs again"
mounted=$work/small
for mpi in none pmi1; do
    [ $mpi = none ] && what="create the log directory" || what="create the folder"
    rm -rf small/*
    mkdir small/run
    filler=0
    while touch "small/filler-$((filler += 1))" 2>/dev/null; do :; done
    rm small/filler-1 small/filler-2 small/filler-3 small/filler-4
    timeout 60 "$AUTOLAUNCH" --mpi $mpi --nproc-per-node 2 --log-dir small/run /bin/true >out.log 2>err.log </dev/null
    expect "exit code without room for logs, mpi $mpi" 73 "$?"
    contains "the reason" err.log "No space left on device"
    contains "what could not be done" err.log "cannot $what"
    nothing_left
done
umount small && mounted=

# Filled by a rank in the middle of its work: its print goes on, and so does the job.
mount -t tmpfs -o size=4m tmpfs small || fail "cannot mount a tmpfs again"
mounted=$work/small
cat >printer.py <<'END'
import os, time
def fill():
    try:
        with open("small/filler", "ab", buffering=0) as filler:
            while filler.write(b"x" * 512): pass
    except OSError:
        pass
print("begins", flush=True)
time.sleep(0.3)
fill()
for line in range(700):
    print(f"line {line} ".ljust(1023, "."), flush=True)
    time.sleep(0.003)
print("ends", flush=True)
END
timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --log-dir small/run python3 printer.py >out.log 2>err.log </dev/null
expect "exit code of a job that fills its disk" 0 "$?"
contains "what is said" err.log "no room for what the ranks print (No space left on device: $work/small/run/generation-0/rank-0/stdout)"
expect "how often" 1 "$(grep -c "no room for what" err.log)"
contains "how much was lost" err.log "of what ranks printed are missing in the middle of $work/small/run/generation-0/rank-0/stdout"
contains "the end" err.log "done in"
contains "the console's first line" out.log "begins"
contains "the console's last line" out.log "ends"
expect "the log's beginning" begins "$(head -n 1 small/run/generation-0/rank-0/stdout)"
expect "the log's end" ends "$(tail -n 1 small/run/generation-0/rank-0/stdout)"
nothing_left
rm -rf small/*

# A rank that a full disk ends: that is named, and no restart is tried without room.
cat >saver.py <<'END'
with open("small/state", "ab", buffering=0) as state:
    while True: state.write(b"x" * 4096)
END
timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --max-restarts 2 --log-dir small/run python3 saver.py >out.log 2>err.log </dev/null
expect "exit code of a rank that finds no room" 1 "$?"
contains "its words" err.log "OSError: [Errno 28] No space left on device"
contains "the cause" err.log "nothing can be written where its logs are: No space left on device; make room: df -h $work/small/run/generation-0/rank-0"
contains "the restart" err.log "no restart: before there is room"
expect "restarts" "" "$(grep "restart 1 of" err.log)"
nothing_left

# A job whose spec has a rule for storage waits until somebody has made room, and goes on.
cat >saver.py <<'END'
import os
with open("small/run/state", "ab", buffering=0) as state:
    for block in range(4096 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else 1): state.write(b"x" * 4096)
END
rm -rf small/*
(eventually "the wait" grep -q "waits for room" err.log && sleep 1 && rm small/run/state) >/dev/null 2>&1 &
echo 'restart: {on: {storage: {budget: 2, delay: 100ms}}}' >storage.yaml
timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --log-dir small/run -c storage.yaml -- python3 saver.py >out.log 2>err.log </dev/null
expect "exit code of a job that room is made for" 0 "$?"
contains "what it waits for" err.log "the restart waits for room in $work/small/run"
nothing_left
umount small && mounted=

# Where no room can be kept (ext2 has no fallocate, as most network file systems), print fails: the cause is named though the
# rank's last words are lost, and no restart is tried without room.
truncate -s 4M image
if mkfs.ext2 -q -F -m 0 image 2>mount.log && mount -o loop image small 2>>mount.log; then
    mounted=$work/small
    timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --max-restarts 2 --log-dir small/run python3 printer.py >out.log 2>err.log </dev/null
    expect "exit code of a rank that cannot print" 1 "$?"
    contains "its last words" err.log "the last lines that found room; what it said after them is lost:"
    contains "the cause" err.log "nothing can be written where its logs are: No space left on device; make room: df -h $work/small/run/generation-0/rank-0"
    contains "the restart" err.log "no restart: before there is room"
    expect "restarts" "" "$(grep "restart 1 of" err.log)"
    nothing_left
    umount small && mounted=
else
    echo "not tried, an ext2 file system: $(cat mount.log)"
fi

# A limit on a file's size is the rank's end, and not the agent's.
(
    ulimit -f 64
    timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --log-dir run "$misbehave" flood:5000,exit:0 >/dev/null 2>err.log </dev/null
    exit $?
)
expect "exit code past ulimit -f" 153 "$?"
contains "the limit" err.log "the file size limit (ulimit -f) was reached"
contains "the record" run/events.jsonl '"event":"job_ended"'
nothing_left
echo "passed"
