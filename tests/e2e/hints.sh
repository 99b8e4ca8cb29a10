#!/bin/bash
# An error of the library that nobody catches: its hint is seen, without the launcher below what(), and on the launcher's
# screen in the line of the cause, whatever else the program says when it dies.
. "$(dirname "$0")/lib.sh"
uncaught=$AUTOLAUNCH_BINARY_DIR/tests/integration/uncaught
ulimit -c 0

words="terminate called after throwing an instance of 'autolaunch::Error'
  what():  no unit is named atention; did you mean attention?
  hint():  the units are attention, output"
for how in name thread; do
    timeout 60 "$uncaught" $how >out.log 2>err.log
    expect "exit code of $how" 134 "$?"
    [ "$(cat err.log)" = "$words" ] || fail "$how says something else"
done
timeout 60 "$uncaught" lines >out.log 2>err.log
expect "exit code of lines" 134 "$?"
contains "the type" err.log "instance of 'autolaunch::TimeoutError'"
[ "$(tail -n 2 err.log)" = "  hint():  is it there?
           see its log" ] || fail "the hint's lines"
timeout 60 "$uncaught" handler >out.log 2>err.log
expect "exit code of a handler of its own" 3 "$?"
[ "$(cat err.log)" = "  hint():  the units are attention, output
its own last word" ] || fail "a handler of its own"
timeout 60 "$uncaught" other >out.log 2>err.log
expect "exit code of another exception" 134 "$?"
contains "the runtime's words" err.log "what():  no error of the library"
grep -q "hint()" err.log && fail "a hint of nobody's"

for how in name loud lines; do
    timeout 60 "$AUTOLAUNCH" --nproc-per-node 2 --log-dir "run-$how" "$uncaught" $how >out.log 2>err.log </dev/null
    expect "exit code of $how under the launcher" 134 "$?"
    grep "cause: " err.log >cause.log
    case $how in
        lines) contains "the cause of $how" cause.log "; is it there?; see its log" ;;
        *) contains "the cause of $how" cause.log "; the units are attention, output" ;;
    esac
done
contains "the event" run-loud/events.jsonl '"remedy":"the units are attention, output"'
contains "what happened" run-loud/events.jsonl "no unit is named atention; did you mean attention?"
echo "hints are seen, with and without the launcher"
