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

# Room for the run directory's three files, and for no folder in it.
umount small && mounted=
mount -t tmpfs -o size=1m,nr_inodes=20 tmpfs small || fail "cannot mount a tmpfs again"
mounted=$work/small
for mpi in none pmi1; do
    [ $mpi = none ] && what="create the log directory" || what="create the folder"
    rm -rf small/*
    mkdir small/run
    filler=0
    while touch "small/filler-$((filler += 1))" 2>/dev/null; do :; done
    rm small/filler-1 small/filler-2 small/filler-3
    timeout 60 "$AUTOLAUNCH" --mpi $mpi --nproc-per-node 2 --log-dir small/run /bin/true >out.log 2>err.log </dev/null
    expect "exit code without room for logs, mpi $mpi" 73 "$?"
    contains "the reason" err.log "No space left on device"
    contains "what could not be done" err.log "cannot $what"
    nothing_left
done
echo "passed"
