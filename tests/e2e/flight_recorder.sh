#!/bin/bash
# Where the ranks are in their collectives: asked for by SIGUSR2 while the job goes on, and told after a failure.
. "$(dirname "$0")/lib.sh"
ranks="$AUTOLAUNCH_BINARY_DIR/tests/integration/flight_rank"
[ -x "$ranks" ] || fail "flight_rank is not built"

ready() { [ "$(cat run/generation-0/rank-*/stderr 2>/dev/null | grep -c '^ready')" = 4 ]; }
says() { grep -qF -- "$2" "$1"; }
# launch MODE: in the background.
launch() {
    rm -rf run go err.log out.log
    "$AUTOLAUNCH" --nproc-per-node 4 --log-dir run "$ranks" "$1" "$work/go" >out.log 2>err.log </dev/null &
    job=$!
}

launch late
eventually "ranks are ready" ready
sleep 0.5
kill -USR2 $job
eventually "the answer" says err.log "all of it: "
contains "who waits" err.log "ranks 0-2 wait in all_reduce #4 (1 MiB, h.0 gradients) for "
contains "who does not" err.log "rank 3 has not entered it: it was last in all_gather #3 (16 B, warm-up), until "
file=$(sed -n 's/.*all of it: //p' err.log)
grep -q '"format": "autolaunch flight 2"' "$file" || fail "no such file: $file"
contains "the file" "$file" '"reason": "SIGUSR2"'
contains "the event" run/events.jsonl '"event":"flight"'
kill -0 $job || fail "the job ended"
sleep 1.1
kill -USR2 $job
eventually "the second answer" says err.log "flight-1.json"
touch go
wait $job
expect "exit code of a job that was asked" 0 "$?"

launch die
wait $job
expect "exit code of a rank that is killed" 137 "$?"
contains "the failure" err.log "✗ rank 1"
contains "where they were" err.log "where the ranks were:"
contains "who was in it" err.log "all_reduce #4 (1 MiB, h.0 gradients)"
contains "what it did last, which it could not say" err.log ", and was inside all_reduce #4 (1 MiB, h.0 gradients) since "
contains "in which phase" err.log 'last seen: it began its phase "evaluation" '
contains "the one that was killed" err.log "rank 1 ended within it"
contains "the one that was not there" err.log "rank 3 has not entered it: it was last in all_gather #3 (16 B, warm-up)"
contains "the file is named" run/events.jsonl '"flight_path":"'
grep -q '"process_ended": true' run/generation-0/flight-0.json || fail "the file does not know who ended"

launch timeout
wait $job
expect "exit code of a timeout" 1 "$?"
contains "the rank's own account" err.log "this rank's last calls in world, newest first: all_reduce #4 (1 MiB, h.0 gradients) failed after 1"
contains "where they were" err.log "rank 3 has not entered it"
nothing_left

# Without communicators there is nothing to tell, and no file.
"$AUTOLAUNCH" --nproc-per-node 2 --log-dir plain "$misbehave" exit:3 sleep:20,exit:0 >out.log 2>err.log </dev/null
expect "exit code" 3 "$?"
grep -q "where the ranks were" err.log && fail "a job without communicators speaks of them"
[ -e plain/generation-0/flight-0.json ] && fail "a file without contents"
"$AUTOLAUNCH" --nproc-per-node 2 --log-dir plain "$misbehave" sleep:3,exit:0 >out.log 2>err.log </dev/null &
job=$!
started() { [ "$(grep -c rank_started plain/events.jsonl)" = 4 ]; }
eventually "ranks started" started
sleep 0.2
kill -USR2 $job
eventually "an answer all the same" says err.log "nothing is known of ranks 0-1: "
wait $job
expect "exit code of ranks without a handler" 0 "$?"
nothing_left
echo "passed"
