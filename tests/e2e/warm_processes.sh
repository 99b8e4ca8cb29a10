#!/bin/bash
# Processes that wait beside the ranks (restart.warm_processes): they take the place of ranks that are started anew, the bits
# at the end are those of an undisturbed run, and where they are not there the rank starts as ever.
. "$(dirname "$0")/lib.sh"
rank=$AUTOLAUNCH_BINARY_DIR/tests/integration/memory_rank

cat >warm.yaml <<END
trainer: {command: [x]}
resource_management: {ranks_per_node: 3}
restart: {max_restarts: 2, warm_processes: true}
END
begin() { # RUN_DIRECTORY ARGUMENT...: until three spares wait
    "$AUTOLAUNCH" -c warm.yaml --log-dir "$1" -- "$rank" 40 "hold=$work/$1.go" "${@:2}" >"$1.log" 2>"$1.err.log" </dev/null &
    job=$!
    eventually "three spares of $1" spares_are "$1" 3
}
spares_are() { [ "$(grep -cs '"event":"spare_ready"' "$1/events.jsonl")" = "$2" ]; }
spare_of() { sed -n 's/.*"event":"spare_ready","local_rank":'"$2"',"pid":\([0-9]*\).*/\1/p' "$1/events.jsonl" | tail -n 1; }
goes_on() { # RUN_DIRECTORY
    touch "$1.go"
    wait "$job"
    expect "exit code of $1" 0 "$?"
    expect "the bits of $1" "$(digests calm)" "$(digests "$1")"
    expect "processes left of $1" "" "$(pgrep -f "^$rank" -a | grep -F "$work" || true)"
}
digests() { cat "$1"/generation-*/rank-*/stdout | grep '^digest' | sort; }
started() { # RUN_DIRECTORY FIELD: ranks of generation 1 that have it
    grep '"event":"rank_started"' "$1/events.jsonl" | grep '"generation":1,' | grep "\"$2\":true" | sed 's/.*"rank":\([0-9]*\).*/\1/' | sort | xargs
}
warned() { grep -qs "restart.warm_processes: .*$2" "$1.err.log"; }

"$AUTOLAUNCH" --nproc-per-node 3 --log-dir calm "$rank" 40 >calm.log 2>calm.err.log </dev/null
expect "exit code of the undisturbed run" 0 "$?"
expect "digests of the undisturbed run" 3 "$(digests calm | wc -l)"

begin anew die=1:25
first=$(spare_of anew 1)
goes_on anew
expect "ranks that spares became" "0 1 2" "$(started anew spare)"
expect "the process of rank 1" "$first" "$(grep '"rank_started","rank":1,' anew/events.jsonl | grep '"generation":1,' | sed 's/.*"pid":\([0-9]*\).*/\1/')"
contains "what it prints is in its generation's log" anew/generation-1/rank-1/stdout 'from 24 memory {"step":24}'
grep -qs '"spare":true' <(grep '"generation":0,' anew/events.jsonl) && fail "a rank of the first generation was a spare"
expect "nothing was said" "" "$(grep warm_processes anew.err.log)"

begin place in_place=1 die=1:25
goes_on place
expect "ranks that stayed" "0 2" "$(started place stayed)"
expect "the one that a spare became" "1" "$(started place spare)"

# One is killed, and another is made; then all are, at once before they are needed.
begin killed die=1:25
kill -KILL "$(spare_of killed 1)"
eventually "the loss of a spare is told" warned killed "local rank 1: it was ended by SIGKILL"
eventually "another one waits" spares_are killed 4
for local in 0 1 2; do kill -KILL "$(spare_of killed $local)"; done
goes_on killed
[ "$(started killed spare | wc -w)" -lt 3 ] || fail "ranks were spares that had been killed"

# Stopped ones do not answer.
begin stopped die=1:25
kill -STOP "$(spare_of stopped 2)"
goes_on stopped
expect "ranks that spares became, without the stopped one" "0 1" "$(started stopped spare)"
contains "why not" stopped.err.log "restart.warm_processes: the spare of local rank 2: it did not answer within 1 s"

# What is no C++ trainer has none, and a line says it.
printf 'import autolaunch\nautolaunch.report_step(1)\nimport time\ntime.sleep(1)\n' >train.py
"$AUTOLAUNCH" -c warm.yaml trainer.preload=off --log-dir python -- python3 train.py >python.log 2>python.err.log </dev/null
expect "exit code of a Python trainer" 0 "$?"
contains "where Python has it" python.err.log "and those like it, have no spare: its process asks for no C++ Session"
expect "lines of it" 1 "$(grep -c restart.warm_processes python.err.log)"
expect "spares of a Python trainer" 0 "$(grep -c spare_ready python/events.jsonl)"
echo passed
