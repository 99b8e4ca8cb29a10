#!/bin/bash
# Signals that autolaunch was started to ignore, and a terminal that is closed (docs/signals.md).
. "$(dirname "$0")/lib.sh"

start() { # COMMAND...: in front of autolaunch; sets `job`
    rm -rf run
    "$@" "$AUTOLAUNCH" -n 1 --log-dir run "$misbehave" facts,say:ready,hang >out.log 2>err.log </dev/null &
    job=$!
    eventually "the rank" grep -qs ready run/generation-0/rank-0/stderr
}
ends_with() { # CODE
    wait "$job"
    expect "exit code" "$1" $?
    nothing_left
}
signals() { grep -o '"signal":[0-9]*' run/events.jsonl | cut -d: -f2 | tr '\n' ' '; }
# ignored SIGNAL: by the rank
ignored() { (((0x$(sed -n 's/^ignored //p' run/generation-0/rank-0/stdout) >> ($1 - 1)) & 1)); }

start env --default-signal=HUP,INT
kill -HUP "$job"
ends_with 129
expect "what the rank got" "1 1 " "$(signals)" # sent, and its end
ignored 1 && fail "the rank ignores SIGHUP"

start nohup
kill -HUP "$job"
sleep 0.3
kill -0 "$job" || fail "SIGHUP ended it under nohup"
ignored 1 || fail "the rank does not ignore SIGHUP under nohup"
kill -TERM "$job"
ends_with 143

start env # in a script's background SIGINT is ignored, which nobody asked for
kill -INT "$job"
ends_with 130
expect "what the rank got" "2 2 " "$(signals)"
echo "passed"
