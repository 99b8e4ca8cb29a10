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
echo "passed"
