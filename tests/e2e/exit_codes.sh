#!/bin/bash
# What autolaunch exits with, for each way a job can end, and that nothing is left behind.
. "$(dirname "$0")/lib.sh"

# code EXPECTED WHAT ARGUMENTS...
code() {
    local expected=$1 what=$2
    shift 2
    "$AUTOLAUNCH" "$@" >out.log 2>err.log </dev/null
    expect "exit code: $what" "$expected" "$?"
    nothing_left
}

code 0 "all well" --nproc-per-node 4 --log-dir ok /bin/true
expect "events" "4" "$(grep -c '"event":"rank_exited"' ok/events.jsonl)"
code 3 "a rank's exit code" --nproc-per-node 3 "$misbehave" hang sleep:0.2,exit:3 hang
contains "the failing rank is named" err.log "rank 1"
code 4 "an error file that cannot be looked at" --nproc-per-node 2 \
    sh -c 'ln -s error.json "$TORCHELASTIC_ERROR_FILE" && exit 4'
contains "the failure screen" err.log "exited with code 4"
code 139 "a rank's signal" --nproc-per-node 2 "$misbehave" hang "say:loader: shard 71 is truncated,crash"
contains "the signal is named" err.log "SIGSEGV"
contains "the last lines are shown" err.log "loader: shard 71 is truncated"
code 127 "no such program" --nproc-per-node 2 ./no-such-program
contains "it is named" err.log "no-such-program"
touch not-executable
code 126 "not executable" --nproc-per-node 2 --no-python ./not-executable
contains "what to do" err.log "chmod +x"
printf '#!/no/such/interpreter\n' >script
chmod +x script
code 127 "a missing interpreter" ./script
contains "the interpreter is named" err.log "/no/such/interpreter"
for interpreter in "/bin/bash -e" "/bin/sh -e"; do # DOS line ends reach the interpreter as an option
    printf '#!%s\r\nexit 0\r\n' "$interpreter" >script
    "$AUTOLAUNCH" ./script >out.log 2>err.log </dev/null && fail "a script with DOS line ends did run"
    contains "what is wrong with the script" err.log "has DOS line ends (CR LF)"
    nothing_left
done
code 64 "an option that does not exist" --no-such-option /bin/true
code 0 "a rank that closes its stdout" --nproc-per-node 2 "$misbehave" close-stdout,exit:0
code 0 "more ranks than cores" --nproc-per-node 24 "$misbehave" meet
touch in-the-way
code 73 "a run directory that cannot be created" --log-dir in-the-way/run /bin/true
contains "it is named" err.log "in-the-way"
long=$(printf 'a%.0s' {1..300})
code 73 "a run directory whose name is too long" --log-dir "$long" /bin/true
contains "the reason" err.log "File name too long"
code 65 "a saved machine whose name is too long" plan --topology "$long" /bin/true
contains "the reason" err.log "File name too long"

mkdir gone
cd gone || exit 1
rmdir "$work/gone"
for command in "" plan; do
    "$AUTOLAUNCH" $command --log-dir "$work/elsewhere" /bin/true >"$work/out.log" 2>"$work/err.log" </dev/null
    expect "exit code of '$command' in a folder that was removed" 66 "$?"
    contains "the reason" "$work/err.log" "cannot tell the working directory: No such file or directory"
done
cd "$work" || exit 1
nothing_left

env -i "$AUTOLAUNCH" --nproc-per-node 2 /bin/true >out.log 2>err.log
expect "exit code with an empty environment" 0 "$?"
"$AUTOLAUNCH" --nproc-per-node 2 --log-dir closed /bin/true <&- >&- 2>&-
expect "exit code with closed standard streams" 0 "$?"
expect "ranks ran" 2 "$(grep -c '"event":"rank_exited"' closed/events.jsonl)"
[ -L runs/latest ] || fail "runs/latest does not point at the newest run"
echo "passed"
