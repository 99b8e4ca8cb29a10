#!/bin/bash
# A job that stands still is noticed by the steps that do not come, and the rank that the others wait for is named with what it
# does; a pause of a rank that works, and a short stop, are no standstill.
. "$(dirname "$0")/lib.sh"
ranks="$AUTOLAUNCH_BINARY_DIR/tests/integration/flight_rank"
[ -x "$ranks" ] || fail "flight_rank is not built"

declare -A job
launch() { # NAME MODE [OPTION...]: in the background
    "$AUTOLAUNCH" --nproc-per-node 3 --log-dir "$1" "${@:3}" -- "$ranks" "$2" "$work/$1.go" >"$1.out.log" 2>"$1.log" </dev/null &
    job[$1]=$!
}
noticed() { grep -q '"event":"standstill"' "$1/events.jsonl" 2>/dev/null; }
said() { grep -qs -e "$2" "$1.log"; } # the screen follows the event
steps() { grep -qs "\"step\":$2[,}]" "$1/events.jsonl"; }
pid_of() { sed -n 's/.*"event":"rank_started".*"rank":'"$2"'.*"pid":\([0-9]*\).*/\1/p' "$1/events.jsonl" | head -1; }
ends_well() {
    touch "$1.go"
    wait "${job[$1]}"
    expect "exit code of $1" 0 $?
}

# What stands in for PyTorch's flight recorder of rank 2: on a byte in its pipe it writes a dump.
export TORCH_NCCL_DEBUG_INFO_PIPE_FILE=$work/torch_ TORCH_FR_DUMP_TEMP_FILE=$work/dump_
mkfifo torch_2.pipe
exec 7<>torch_2.pipe
{ read -r -n 1 -t 100 -u 7 && echo '{"version":"2.10","pg_status":{"0":{"last_enqueued_collective":"8","last_started_collective":"7",
    "last_completed_collective":"6"}}}' >dump_2; } &
printf 'trainer: {command: [x]}\nrestart: {max_restarts: 1, hang_after: 2s}\n' >ended.yaml
launch sleeps train
launch again once -c ended.yaml
launch forever work -c ended.yaml restart.max_restarts=0
launch works work
launch stopped train
touch short.go
launch short train
for kind in reads child kernel skips deadlock; do launch $kind $kind -c ended.yaml restart.max_restarts=0; done
printf 'trainer: {command: [x]}\nmonitoring: {interval_seconds: 1}\n' >soon.yaml
launch slow slow -c soon.yaml
# An ordinary user, whose debugger may trace what descends from it, and what allows it to (Yama's ptrace_scope=1).
scope=$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo "none: this kernel has no Yama")
if [ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$AUTOLAUNCH" -a -x "$ranks"; then
    mkdir user user/runtime && chown -R 65534:65534 user && chmod 711 "$work" && chmod 700 user/runtime
    (cd user && XDG_RUNTIME_DIR=$work/user/runtime HOME=$work/user exec setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$AUTOLAUNCH" --nproc-per-node 2 --log-dir run -c "$work/ended.yaml" restart.max_restarts=0 -- "$ranks" reads "$work/user/go" >out.log 2>user.log </dev/null) &
    job[user]=$!
else
    echo "not tried: stacks as an ordinary user, for this test is not root's, or others may not execute what it built"
fi
# Ranks that report nothing: they print, and then spin.
"$AUTOLAUNCH" -n 2 -c ended.yaml restart.max_restarts=0 --log-dir mute -- \
    sh -c 'for i in 1 2 3 4; do echo $i; sleep 0.3; done; while :; do :; done' >mute.out.log 2>mute.log </dev/null &
job[mute]=$!
for name in sleeps works stopped; do eventually "$name is at its 11th step" steps $name 11; done
kill -STOP "$(pid_of stopped 0)"
touch stopped.go # only the stop is left

eventually "a rank that sleeps is noticed" noticed sleeps
eventually "all of it is said" said sleeps " all of it: "
contains "what is seen" sleeps.log "the job stands still: no step for "
contains "who" sleeps.log "rank 2 (pid $(pid_of sleeps 2)) sleeps"
contains "where" sleeps.log "ranks 0-1 wait in all_reduce #14 (16 KiB, gradients) for "
contains "where it is not" sleeps.log "rank 2 has not entered it"
contains "the event" sleeps/events.jsonl '"ranks":[2]'
file=$(sed -n 's/.*all of it: //p' sleeps.log)
contains "the file" "$file" '"reason": "no step for '

eventually "a rank that is stopped is noticed" noticed stopped
eventually "all of that is said" said stopped " all of it: "
contains "who is stopped" stopped.log "rank 0 (pid $(pid_of stopped 0)) is stopped (SIGSTOP, Ctrl-Z): SIGCONT would wake it"
kill -CONT "$(pid_of stopped 0)"

noticed works && fail "a rank that works was taken for one that stands still: $(cat works.log)"
eventually "its threads are written down" said sleeps "rank 2's threads: less "
contains "the event of that" sleeps/events.jsonl '"event":"stacks"'
contains "its main thread" sleeps/generation-0/stacks-rank-2.txt "thread $(pid_of sleeps 2) flight_rank: S, sleeps"
contains "what PyTorch says of it" sleeps/generation-0/stacks-rank-2.txt \
    "group 0: collectives enqueued up to #8, started up to #7, completed up to #6"
[ ! -e /proc/pressure/cpu ] || contains "the node" sleeps/generation-0/stacks-rank-2.txt "pressure, cpu: some avg10="
if command -v eu-stack >/dev/null || command -v gdb >/dev/null; then
    contains "its stack" sleeps/generation-0/stacks-rank-2.txt "train"
else
    echo "not tried: stacks, for neither eu-stack nor gdb is installed"
    contains "why there is no stack" sleeps.log "neither eu-stack nor gdb is installed"
fi
wait "${job[again]}"
expect "exit code of a job that is restarted after a hang" 0 $?
contains "the screen of a hang" again.log "rank 2 (pid $(pid_of again 2)) sleeps, and the job stands still: no step for "
contains "its cause" again.log "cause: hang, certain · ended after 2.0 s without a step (restart.hang_after)"
contains "its account" again.log "restart for hang, 1 of 3 in 6 h: no checkpoint was reported"
contains "its threads, before it was ended" again.log "where its threads are: less "
contains "the event of a hang" again/events.jsonl '"event":"job_hung"'
contains "why it ended" again/events.jsonl '"next":"restart","cause":"hang","certainty":"certain","rank":2'
"$AUTOLAUNCH" report again >report.log 2>&1 || fail "the report of a hang"
contains "the report" report.log "the job stood still  [hang, certain]"
grep -q "generation 1 ended" report.log && fail "a good end is no failure"
wait "${job[forever]}"
expect "exit code of a hang without restarts" 124 $?
contains "a rank that computes for ever" forever.log "cause: hang, likely"

for kind in reads child kernel deadlock; do
    wait "${job[$kind]}"
    expect "exit code of $kind" 124 $?
done
contains "a rank that reads" reads.log "rank 2 (pid $(pid_of reads 2)) reads $work/reads.go.pipe, and the job stands still"
contains "a rank whose child does not end" child.log "rank 2 (pid $(pid_of child 2)) waits for its child flight_rank (pid "
contains "what the child does" child.log "), which sleeps, and the job stands still"
contains "a rank that hangs in the kernel" kernel.log "rank 2 (pid $(pid_of kernel 2)) hangs in the kernel (uninterruptible"
wait "${job[skips]}"
expect "exit code of a skipped collective, which the library notices" 1 $?
contains "who skipped it" skips.log "✗ rank 2 has not entered all_reduce #14 (16 KiB, gradients), and rank "
contains "a deadlock" deadlock.log "a deadlock of two communicators: "

if [ -n "${job[user]:-}" ]; then
    wait "${job[user]}"
    expect "exit code of an ordinary user's job" 124 $?
    contains "what the user's rank does" user/user.log "rank 1 (pid $(pid_of user/run 1)) reads $work/user/go.pipe"
    if command -v eu-stack >/dev/null || command -v gdb >/dev/null; then
        contains "the stack of the user's rank (ptrace_scope $scope)" user/run/generation-0/stacks-rank-1.txt "stand"
    fi
fi
wait "${job[mute]}"
expect "exit code of ranks that show no sign of life" 124 $?
contains "what they do not" mute.log "and the job stands still: nothing was printed, read, written or sent for "

wait "${job[slow]}"
expect "exit code of a job with a slow rank" 0 $?
contains "a rank for which the others wait" slow.log "rank 2 is busy for "
expect "events of a slow rank" 1 "$(grep -c '"event":"stragglers","ranks":\[2\]' slow/events.jsonl)"
noticed slow && fail "a slow rank was taken for a hang: $(cat slow.log)"

ends_well sleeps
contains "the end of it" sleeps.log "the job goes on, after "
contains "its event" sleeps/events.jsonl '"event":"standstill_over","lasted_seconds":'
ends_well stopped
ends_well works
ends_well short
noticed short && fail "false alarm: $(cat short.log)"
nothing_left
