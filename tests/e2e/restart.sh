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

# The folder for sockets goes while the job runs, as XDG_RUNTIME_DIR does at logout: the restart has another one.
cat >logout.sh <<'EOS'
if [ "$AUTOLAUNCH_GENERATION" = 0 ]; then
    echo "$AUTOLAUNCH_SOCKET" >first
    rm -r "$XDG_RUNTIME_DIR"
    exit 9
fi
[ -S "$AUTOLAUNCH_SOCKET" ] || exit 8
echo "$AUTOLAUNCH_SOCKET" >second
stat -c %a "$(dirname "$AUTOLAUNCH_SOCKET")" >mode
EOS
"$AUTOLAUNCH" --nproc-per-node 1 --max-restarts 1 --log-dir logout sh logout.sh >out.log 2>err.log </dev/null
expect "exit code of a job whose user logged out" 0 "$?"
first=$(dirname "$(cat first)")
second=$(dirname "$(cat second)")
expect "the folder's name" "$(basename "$first")" "$(basename "$second")"
expect "its mode" 700 "$(cat mode)"
contains "the warning" err.log "the folder for sockets, $first, was removed while the job ran; it is now $second"
[ ! -e "$second" ] || fail "the new folder is left"
mkdir -m 700 "$XDG_RUNTIME_DIR"
nothing_left
echo "passed"
