#!/bin/bash
# Ranks that use MPI alone, of a kind that leaves nothing in a memory map: what its own variables say is certain. One job of
# N ranks does not become N jobs with exit code 0; a library that is loaded and not used is no matter.
. "$(dirname "$0")/lib.sh"
linked=$AUTOLAUNCH_BINARY_DIR/tests/e2e/lone_mpi_linked
within=$AUTOLAUNCH_BINARY_DIR/tests/e2e/lone_mpi_within

al() { # NAME EXPECTED_CODE COMMAND...: two ranks; leaves its output in NAME.log
    local name=$1 expected=$2 code=0
    shift 2
    timeout 60 "$AUTOLAUNCH" --log-dir "$work/run-$name" -n 2 "$@" >"$name.log" 2>&1 </dev/null || code=$?
    expect "exit code of $name: $*" "$expected" "$code"
}
is_found() { # NAME COMMAND...
    al "$1" 76 "${@:2}"
    contains "$1" "$1.log" "each is rank 0 of 1"
    contains "$1" "$1.log" "--mpi none"
}

is_found cleaned env -i "$linked" init 20
contains "whose it is" cleaned.log "libmpi.so.12 in $linked"
is_found linked "$linked" init 20 # with PMI-1, which it does not read
is_found within env -i "$within" init 20
contains "whose it is" within.log "MPI in $within"
is_found not-taken env A=1 "$linked" init 20 # with our variables, which this library does not read
is_found short sh -c "sleep 1.3; env -i $linked init 0.7; sleep 20"
is_found brief sh -c "env -i $linked brief 0.7; sleep 20"

al served-loaded 0 "$linked" load 1.5 # said by the way it ended, as ever
! grep -q "rank 0 of 1\. " served-loaded.log || fail "a library that is loaded: $(cat served-loaded.log)"
al loaded 0 env -i "$linked" load 1.5
contains "a stray" loaded.log "has loaded MPI without being told who it is"
al ours 0 env A=1 "$linked" load 1.5
! grep -q warning ours.log || fail "a library that is loaded: $(cat ours.log)"
# A tool of one rank's may be so on purpose.
al tool 0 sh -c "[ \$RANK = 0 ] || exec sleep 1.5; sleep 0.4; env -i $linked init 0.5; exec sleep 0.6"
contains "a tool" tool.log "rank 0 "
contains "a tool" tool.log "without being told who it is"
expect "warnings of a tool" 1 "$(grep -c warning tool.log)"
nothing_left
