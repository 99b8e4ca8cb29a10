#!/bin/bash
# A file system that turns read-only, or answers with errors, under a job's logs: it is said, the job goes on, and what is
# missing is named. ext4 does both as on a damaged disk: by its own error handling, and by a shutdown of its device.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" -eq 0 ] || skip "needs root to mount a file system"
for tool in mkfs.ext4 losetup python3; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || skip "needs $tool"
done
export PATH=$PATH:/usr/sbin:/sbin
mkdir disk
images=0
mount_disk() {
    image=image-$((++images)) # mount would take the last one's loop device, if it is still there
    truncate -s 16M "$image"
    mkfs.ext4 -q -F "$image" >mkfs.log 2>&1 || skip "no ext4: $(cat mkfs.log)"
    mount -o loop,errors=remount-ro "$image" disk 2>mount.log || skip "cannot mount ext4 here: $(cat mount.log)"
    mounted=$work/disk
}
turn_read_only() { # as ext4 does when it finds itself damaged; files that are open turn, too
    local device
    device=$(findmnt -no SOURCE disk)
    echo "the test's error" 2>/dev/null >"/sys/fs/ext4/${device##*/}/trigger_fs_error" || skip "this kernel triggers no errors of ext4"
}
answer_with_errors() { # EXT4_IOC_SHUTDOWN without flushing its log: EIO from then on
    python3 -c 'import fcntl, os; fcntl.ioctl(os.open("disk", os.O_RDONLY), 0x8004587D, b"\2\0\0\0")' 2>ioctl.log ||
        skip "cannot shut ext4 down: $(tail -n1 ioctl.log)"
}
# A rank that minds no error of what it prints, and ends well when it is told to.
cat >goes_on.sh <<'END'
echo begins
until [ -e over ]; do echo tick 2>/dev/null; sleep 0.1; done 2>/dev/null
exit 0
END
said() { grep -q "$1" err.log; }
matches() { said "$2" || fail "$1: no '$2' in $(cat err.log)"; }
for kind in turn_read_only:'Read-only file system' answer_with_errors:'Input/output error'; do
    why=${kind#*:}
    mount_disk
    rm -f over
    timeout 60 "$AUTOLAUNCH" --nproc-per-node 2 --log-dir disk/run sh goes_on.sh >out.log 2>err.log </dev/null &
    job=$!
    eventually "both ranks" eval "[ \"\$(grep -c rank_started disk/run/events.jsonl 2>/dev/null)\" = 2 ]"
    "${kind%%:*}"
    eventually "the word for the logs" said "what the ranks print cannot be written any more ($why: "
    sleep 1 # ten lines of each rank, or five
    touch over
    wait "$job"
    expect "exit code, $why" 0 "$?"
    matches "events" "events are not recorded: .*$why; the job goes on"
    matches "how many" "events are missing in "
    calls=$(sed -n 's/.*they called write(2) \([0-9]*\) times since.*/\1/p' err.log)
    [ "${calls:-0}" -ge 5 ] || fail "lines that were lost, $why: ${calls:-no number} in $(cat err.log)"
    matches "from when on" "what ranks printed from .* UTC on is missing in their logs"
    matches "the ledger" "the ledger is not kept: .*$why"
    umount disk && mounted=
done

# One that minds it ends by it, and that is the cause; it is not started again where nothing can be written.
mount_disk
cat >minds.py <<'END'
import os, time
print("begins", flush=True)
while not os.path.exists("broken"): time.sleep(0.02)
print("goes on", flush=True)
END
timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --max-restarts 1 --log-dir disk/run python3 minds.py >out.log 2>err.log </dev/null &
job=$!
eventually "the rank" eval "grep -qs begins disk/run/generation-0/rank-0/stdout"
turn_read_only
touch broken
wait "$job"
expect "exit code of the rank" 1 "$?"
contains "the cause" err.log "cause: storage, certain"
contains "why" err.log "nothing can be written where its logs are: Read-only file system"
contains "what follows" err.log "no restart: while nothing can be written there it would end as this one did"
umount disk && mounted=
nothing_left
