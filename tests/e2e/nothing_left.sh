#!/bin/bash
# However autolaunch ends, no process of the job stays: ranks that ignore SIGTERM, their children, their daemons.
. "$(dirname "$0")/lib.sh"

start() {
    rm -rf run
    "$AUTOLAUNCH" --nproc-per-node 2 --log-dir run \
        "$misbehave" daemon,stubborn-child,ignore-term,ignore-int,say:ready,hang >out.log 2>err.log </dev/null &
    job=$!
    eventually "six processes" six_processes
}
six_processes() { [ "$(ranks_left | wc -l)" -eq 6 ] && [ "$(cat run/*/*/stderr | grep -c ready)" -eq 2 ]; }
gone() { [ -z "$(ranks_left)" ]; }
ended() {
    wait "$job"
    expect "exit code after $1" "$2" "$?"
    nothing_left
}

start
kill -9 "$job"
wait "$job"
eventually "the end of all after kill -9 of autolaunch" gone

start
agent=$(pgrep -P "$(pgrep -P "$job")") || fail "the guardian has no child"
kill -9 "$agent"
ended "kill -9 of the agent" 137

start
kill -INT "$job"
eventually "SIGINT to the ranks" grep -q '"signal":2' run/events.jsonl
sleep 0.5
kill -INT "$job"
ended "a second SIGINT" 130

cat >spec.yaml <<EOF
trainer:
  command: ["$misbehave", "daemon,stubborn-child,ignore-term,say:ready,hang"]
restart:
  grace_period: 1s
EOF
rm -rf run
"$AUTOLAUNCH" -c spec.yaml --nproc-per-node 2 --log-dir run >out.log 2>err.log </dev/null &
job=$!
eventually "six processes" six_processes
kill -TERM "$job"
ended "SIGTERM and the grace period" 143
expect "ranks that needed SIGKILL" 2 "$(grep -c '"event":"rank_signalled","rank":.,"signal":9' run/events.jsonl)"
echo "passed"
