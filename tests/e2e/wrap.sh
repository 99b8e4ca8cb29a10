#!/bin/bash
# Commands around chosen ranks, and core files.
. "$(dirname "$0")/lib.sh"
cat >shows <<'END'
#!/bin/sh
echo "rank $RANK: $*" >"wrapped-$RANK"
exec "$@"
END
chmod +x shows
run() { # EXPECTED_CODE ARGUMENTS...
    local expected=$1 code=0
    shift
    rm -rf run wrapped-*
    "$AUTOLAUNCH" --log-dir run "$@" >out.log 2>err.log </dev/null || code=$?
    expect "exit code of $*" "$expected" "$code"
}
run 0 -n 4 --wrap '0,2-3=./shows env MARK=$RANK' sh -c 'echo "$RANK $MARK $1"' x 'two words'
expect "wrapped ranks" "wrapped-0 wrapped-2 wrapped-3" "$(echo wrapped-*)"
expect "what was wrapped" "rank 2: env MARK=2 sh -c echo \"\$RANK \$MARK \$1\" x two words" "$(cat wrapped-2)"
expect "rank 2's output" "2 2 two words" "$(cat run/generation-0/rank-2/stdout)"
expect "rank 1's output" "1  two words" "$(cat run/generation-0/rank-1/stdout)"
run 3 -n 2 --wrap all=./shows sh -c 'exit 3'
run 127 -n 1 --wrap all=./no-such-profiler true
run 65 -n 2 --wrap 2=./shows true
contains "a rank that is not there" err.log "is to be around ranks 2, but there are ranks 0 to 1"
run 65 -n 2 --wrap all=./shows --wrap 1=nice true
contains "a rank twice" err.log "rank 1 is wrapped twice"
echo 'trainer: {command: [true], wrap: {0-3: nice, x: nice, 1: ""}}' >bad.yaml
run 65 -c bad.yaml
contains "no ranks" err.log "bad.yaml:1:46: trainer.wrap.x: names no ranks"
contains "no command" err.log "trainer.wrap.1: expected a command line"
echo 'trainer: {command: "cat; echo $RANK", wrap: {all: ./shows}}' >good.yaml
run 0 -c good.yaml -n 2
expect "wrapped by the spec" "wrapped-0 wrapped-1" "$(echo wrapped-*)"

# A signal that is forwarded finds the program behind the wrapper.
cat >behind <<'END'
#!/bin/sh
"$@"
END
chmod +x behind
rm -rf run
"$AUTOLAUNCH" -n 1 --log-dir run --wrap 0=./behind "$misbehave" "mark-on-usr1:$work/usr1,say:ready,hang" >out.log 2>err.log </dev/null &
job=$!
eventually "the rank" grep -qs ready run/generation-0/rank-0/stderr
kill -USR1 "$job"
eventually "SIGUSR1 behind the wrapper" test -e usr1
kill -TERM "$job"
wait "$job"
expect "the code after SIGTERM" 143 $?

# The screen names what opens a core file, or why there is none.
pattern=$(cat /proc/sys/kernel/core_pattern)
(
    ulimit -c 0
    run 139 -n 1 sh -c 'kill -SEGV $$'
) || exit 1
case $pattern in
'|'*) echo "cores go to $pattern: the file is not looked for" ;;
*)
    contains "without a core" err.log "no core file: the limit is 0; ulimit -c unlimited before autolaunch"
    if (ulimit -c unlimited) 2>/dev/null; then
        (
            ulimit -c unlimited
            run 139 -n 1 sh -c 'kill -SEGV $$'
        ) || exit 1
        core=$(sed -n 's/^ *core file: gdb [^ ]* //p' err.log)
        [ -n "$core" ] && [ -s "$core" ] || fail "no core file at '$core'"
        rm -f "$core"
    fi
    ;;
esac
nothing_left
echo "passed"
