#!/bin/bash
# A job that fails twice comes back twice, with fresh files and numbers; run again in its folder, it goes on counting.
. "$(dirname "$0")/lib.sh"

"$AUTOLAUNCH" --nproc-per-node 2 --max-restarts 3 --log-dir run \
    "$misbehave" facts,meet,fail-before-generation:2:9,exit:0 facts,meet,exit:0 >out.log 2>err.log </dev/null
expect "exit code" 0 "$?"
contains "the restart is announced" err.log "restart 1 of 3"
for generation in 0 1 2; do
    facts=run/generation-$generation/rank-1/stdout
    contains "generation $generation" $facts "env TORCHELASTIC_RESTART_COUNT=$generation"
    contains "generation $generation" $facts "env AUTOLAUNCH_GENERATION=$generation"
    contains "the limit" $facts "env TORCHELASTIC_MAX_RESTARTS=3"
    contains "no stray descriptor" $facts "fds 0 1 2"
    contains "a clean signal mask" $facts "blocked 0000000000000000"
done
contains "ranks met" run/generation-2/rank-1/stdout "all here"
[ -e run/generation-3 ] && fail "there is a fourth generation"

"$AUTOLAUNCH" --nproc-per-node 1 --log-dir run "$misbehave" exit:0 >out.log 2>err.log </dev/null
expect "exit code of a second run in the folder" 0 "$?"
[ -e run/generation-3/rank-0/stdout ] || fail "the second run did not go on with generation 3"
expect "events of both runs" 2 "$(grep -c '"event":"job_started"' run/events.jsonl)"
nothing_left
echo "passed"
