#!/bin/bash
# A stop is seen: who is waited for and why, and how long until SIGKILL; what a save needs is said; a program's own signal
# comes first; a run directory that is removed under the job takes only its records along.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
command -v python3 >/dev/null || skip "no python3"

start() { # ARGUMENTS OF autolaunch...; sets `job`
    rm -rf run
    "$AUTOLAUNCH" --log-dir run "$@" >out.log 2>err.log </dev/null &
    job=$!
}
ready() { eventually "$1 ranks" eval "[ \$(cat run/generation-0/rank-*/stderr 2>/dev/null | grep -c ready) = $1 ]"; }
ends_with() { # CODE
    wait "$job"
    expect "exit code" "$1" $?
    nothing_left
}

# A rank that stops itself: it is named with what ails it, and a second signal ends the wait.
cat >stubborn.py <<'END'
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *ignored: None)
signal.signal(signal.SIGUSR1, lambda *ignored: (open("saved-" + os.environ["RANK"], "w").write("yes"), sys.exit(0)))
sys.stderr.write("ready\n")
sys.stderr.flush()
while True:
    time.sleep(0.1)
    if os.path.exists("stop-now") and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
END
start -n 2 --shutdown-timeout 60 stubborn.py
ready 2
touch stop-now
kill -INT "$job"
eventually "who is waited for" grep -q "still waiting for rank 0 .* SIGKILL at .*; rank 1 (pid [0-9]*) is stopped (SIGSTOP, Ctrl-Z)" err.log
contains "how long" err.log "stopping all ranks: SIGINT; SIGKILL in 60 s, at once with another Ctrl-C"
kill -INT "$job"
ends_with 130
rm stop-now

# Its own signal comes before SIGTERM, where a scheduler stops the job.
cat >own.yaml <<END
trainer: {command: [python3, stubborn.py]}
resource_management: {ranks_per_node: 2}
restart: {stop_signal: usr1, grace_period: 60s}
END
start -c own.yaml
ready 2
kill -TERM "$job"
ends_with 143 # saved, but autolaunch has not heard of a checkpoint
expect "saved" "yesyes" "$(cat saved-0 saved-1)"
grep -q '"signal":15' run/events.jsonl && fail "SIGTERM was sent: $(grep signalled run/events.jsonl)"

# What saves took is kept, and the next start says what a stop needs; in a pod its own grace period counts.
start -n 1 "$misbehave" train-with-saves:0.4
eventually "a save" grep -qs '"save_seconds":0.4' run/events.jsonl
kill -TERM "$job"
ends_with 75
mv run run.before
"$AUTOLAUNCH" --log-dir run.before -n 1 true >out.log 2>err.log </dev/null || fail "it does not go on there"
contains "the budget" err.log "a save takes 0.4 s (2 measured) and fits into the 15 s after SIGTERM"
AUTOLAUNCH_KILL_WAIT=2 "$AUTOLAUNCH" --log-dir run.before -n 1 true >out.log 2>err.log </dev/null || fail "not in a pod"
contains "the budget of a pod" err.log "a save takes 0.4 s, restart.kill_wait is 2.0 s: 5.4 s are needed"
AUTOLAUNCH_KILL_WAIT=soon "$AUTOLAUNCH" -n 1 true >out.log 2>err.log </dev/null && fail "a kill wait of soon"
contains "what is wrong" err.log 'AUTOLAUNCH_KILL_WAIT is "soon"'

# The run directory goes: the job does not.
start -n 2 "$misbehave" say:ready,sleep:8,exit:0
ready 2
rm -rf run
wait "$job"
expect "exit code without its folder" 0 $?
contains "events" err.log "run/events.jsonl was removed; the job goes on"
contains "how many" err.log "events are missing in"
contains "logs" err.log "removed while ranks write there: "
contains "logs at the end" err.log " are lost"
nothing_left

# On a terminal the last line counts down.
export AUTOLAUNCH E2E_MARK HISTFILE= TERM=xterm
rm -rf run
cat >script <<'END'
run "$AUTOLAUNCH" -n 1 --shutdown-timeout 60 --log-dir run stubborn.py; echo "code=$?"
see ready
key c
see SIGKILL in 5
see Ctrl-C again: now
key c
see code=130
type exit
END
python3 "$here/terminal.py" script >screen.log 2>script.log || fail "the countdown"
nothing_left
echo "passed"
