#!/bin/bash
# What ranks print is in their logs at once, whatever they are written in and whatever becomes of them; what of it is shown,
# and how our own words look where there is no UTF-8 and no wide terminal.
. "$(dirname "$0")/lib.sh"
unset PYTHONUNBUFFERED LD_PRELOAD LC_ALL
command -v cc >/dev/null || skip "no C compiler"
launch() { timeout 60 "$AUTOLAUNCH" --log-dir run "$@" >out.log 2>err.log </dev/null; }
fresh() { rm -rf run; }
lines_library=$(find "$AUTOLAUNCH_BINARY_DIR/launcher" -name autolaunch-lines.so)
[ -n "$lines_library" ] || fail "autolaunch-lines.so was not built"

cat >prints.c <<'END'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char** argv) {
    printf("first line\n");
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        for (int i = 0; i < 600 && access("go", F_OK) != 0; ++i)
            usleep(50000);
    printf("last words");
    printf(" are whole\n");
    if (argc > 1 && strcmp(argv[1], "die") == 0)
        raise(SIGKILL);
    return argc > 1 && strcmp(argv[1], "fail") == 0 ? 3 : 0;
}
END
cc -o prints prints.c || fail "cc"

# A C program's lines are there while it runs,
timeout 60 "$AUTOLAUNCH" --log-dir run ./prints wait >out.log 2>err.log </dev/null &
job=$!
eventually "a line in the log of a C program that still runs" grep -qs "first line" run/generation-0/rank-0/stdout
eventually "the same line on the console" grep -q "first line" out.log
touch go
wait $job || fail "exit code $?"
# and those of one that was killed are not lost, also behind a script.
for program in "./prints die" "sh -c './prints die; exit 137'" "env A=1 ./prints die"; do
    fresh
    eval "launch $program"
    expect "exit code of $program" 137 "$?"
    contains "what $program said last" run/generation-0/rank-0/stdout "last words are whole"
    contains "what the console shows of $program" out.log "last words are whole"
done
contains "the screen of the last one" err.log "| last words are whole"
# Python's and Fortran's too.
fresh
launch python3 -c 'import os; print("last words"); os.kill(os.getpid(), 9)'
contains "what Python said last" run/generation-0/rank-0/stdout "last words"
if command -v gfortran >/dev/null; then
    printf "program p\n print '(a)', 'last words'\n call kill(getpid(), 9)\n call sleep(5)\nend program\n" >p.f90
    if gfortran -o fortran p.f90 2>fortran.log; then
        fresh
        launch ./fortran
        contains "what Fortran said last" run/generation-0/rank-0/stdout "last words"
    fi
fi

# The library comes behind the user's, is left out where it cannot be, and each has its reason.
cp "$lines_library" mine.so
fresh
LD_PRELOAD=$work/mine.so launch sh -c 'echo "$LD_PRELOAD $PYTHONUNBUFFERED"'
expect "LD_PRELOAD" "$work/mine.so:$lines_library 1" "$(cat run/generation-0/rank-0/stdout)"
"$AUTOLAUNCH" plan ./prints >out.log
contains "the plan" out.log "file, by lines: "
contains "the plan" out.log "LD_PRELOAD"
fresh
launch --no-line-buffering sh -c 'echo "<$LD_PRELOAD$PYTHONUNBUFFERED$AUTOLAUNCH_STDOUT>"'
expect "nothing preloaded" "<>" "$(cat run/generation-0/rank-0/stdout)"
printf 'trainer:\n  command: [sh, -c, "echo \\"<$LD_PRELOAD>\\""]\n  env: {LD_PRELOAD: ""}\n' >spec.yaml
fresh
launch -c spec.yaml
expect "LD_PRELOAD that trainer.env sets to nothing" "<>" "$(cat run/generation-0/rank-0/stdout)"
if cc -static -o static prints.c 2>/dev/null; then
    fresh
    launch ./static || fail "a static program"
    expect "stderr of a static program" "" "$(cat run/generation-0/rank-0/stderr)"
    "$AUTOLAUNCH" plan ./static >out.log
    contains "the plan of a static program" out.log "the program is static"
fi
if cc -fsanitize=address -o sanitized prints.c 2>/dev/null && ./sanitized >/dev/null 2>&1; then
    for program in ./sanitized "sh -c ./sanitized" "sh -c './sanitized; :'"; do
        fresh
        eval "launch $program"
        expect "exit code of $program with AddressSanitizer: $(cat run/generation-0/rank-0/stderr)" 0 "$?"
    done
    "$AUTOLAUNCH" plan ./sanitized >out.log
    contains "the plan of one with a sanitizer" out.log "the program has a sanitizer"
fi
# Other files and pipes of the rank's children are as they were: whole buffers.
cat >writes.sh <<'END'
strace -f -e trace=write -o trace.txt seq 20000 >other.txt 2>/dev/null || { seq 20000 >other.txt; echo no strace >trace.txt; }
seq 1 100000 | head -n 2
grep -c . other.txt
END
fresh
launch sh writes.sh || fail "a script with pipes"
expect "what a script with pipes prints" "1 2 20000" "$(tr '\n' ' ' <run/generation-0/rank-0/stdout | sed 's/ $//')"
expect "its stderr" "" "$(cat run/generation-0/rank-0/stderr)"
if ! grep -q "no strace" trace.txt; then
    [ "$(grep -c 'write(1' trace.txt)" -lt 100 ] || fail "a child that writes to another file writes line by line"
fi

# A terminal, where one is wanted: the streams stay apart, nothing is lost, and last words are quoted.
fresh
launch --stdio pty -n 2 sh -c 'test -t 1 && test -t 2 && seq 50000 && echo to stderr >&2' || fail "ranks on terminals"
for rank in 0 1; do
    seq 50000 | cmp - run/generation-0/rank-$rank/stdout || fail "a terminal's output is not complete"
    expect "stderr of a rank on a terminal" "to stderr" "$(cat run/generation-0/rank-$rank/stderr)"
done
fresh
launch --stdio pty ./prints die
expect "exit code of a rank that dies on a terminal" 137 "$?"
contains "its last words" err.log "| last words are whole"
"$AUTOLAUNCH" plan --stdio pty ./prints >out.log
contains "the plan with terminals" out.log "pty: "

# Without prefixes: bytes as they are, also for a reader that takes its time.
head -c 6000000 /dev/urandom >bytes
fresh
timeout 60 "$AUTOLAUNCH" --log-dir run --no-prefix cat bytes 2>err.log </dev/null | { sleep 6; cmp - bytes; } ||
    fail "bytes did not pass unchanged"
fresh
timeout 60 "$AUTOLAUNCH" --log-dir run --no-prefix -n 2 cat bytes 2>err.log </dev/null | head -c 100 >/dev/null
expect "exit code without a reader" 0 "${PIPESTATUS[0]}"

# What stdout does not take is said, and the logs have it; with --no-prefix, where the bytes are the result, it is an error.
fresh
timeout 60 "$AUTOLAUNCH" --log-dir run -q echo words >/dev/full 2>err.log </dev/null
expect "exit code with a full disk behind stdout" 0 "$?"
contains "a full disk behind stdout" err.log "warning: stdout cannot be written: No space left on device; what the ranks print is in"
expect "the log then" words "$(cat run/generation-0/rank-0/stdout)"
fresh
timeout 60 "$AUTOLAUNCH" --log-dir run -q --no-prefix echo words >/dev/full 2>err.log </dev/null
expect "exit code of bytes that found no room" 74 "$?"
rm -f go && fresh
{ timeout 60 "$AUTOLAUNCH" --log-dir run -q sh -c 'until [ -e go ]; do echo words; sleep 0.05; done' 2>err.log </dev/null
    echo $? >code; } | head -n 1 >/dev/null &
eventually "the word that nobody reads" grep -qs "warning: stdout cannot be written: nobody reads it any more" err.log
touch go
wait $!
expect "exit code without a reader" 0 "$(cat code)"

# What a rank leaves running is ended with it, and where all went well that is said; not of what ends by itself.
for program in "sh -c 'sleep 60 & echo started'" "setsid sh -c 'sleep 60'"; do
    fresh
    eval "launch -q $program"
    expect "exit code of $program" 0 "$?"
    contains "what $program left" err.log "left running what was ended with them: s"
done
fresh
launch -q sh -c 'sleep 0.1 & wait'
expect "what is said of a rank that leaves nothing" "" "$(grep 'left running' err.log)"

# No UTF-8 where the locale has none, but for what ranks print.
no_utf8() { LC_ALL=C grep -q '[^ -~	]' "$2" && fail "$1 is not ASCII: $(LC_ALL=C grep '[^ -~	]' "$2")"; }
fresh
LC_ALL=C launch -n 2 --max-restarts 1 sh -c "printf 'caf\303\251\n'; ./prints fail"
no_utf8 "the screen of a failure in the C locale" err.log
contains "a rank's own bytes" out.log "$(printf 'caf\303\251')"
contains "the sign of a failure" err.log "x rank "
# Of a restart no more is said than is known.
contains "the restart" err.log "restart 1 of 1: no checkpoint was reported, so only the program knows where it goes on ..."
for command in "plan ./prints" topo "topo --json" "plan --json ./prints" doctor "--help" "schema --markdown" "lint --rules"; do
    LC_ALL=C "$AUTOLAUNCH" $command >out.log 2>&1 </dev/null
    no_utf8 "$command in the C locale" out.log
done

# A real terminal that shrinks keeps no piece of the status line.
if command -v tmux >/dev/null; then
    cat >steps.sh <<'END'
for step in $(seq 0 10 90); do printf '\r%s%% of a bar %s' $step "$(printf '#%.0s' $(seq 60))"; sleep 0.15; done
printf '\rall of the bar\n'
echo the last line
END
    fresh
    tmux() { command tmux -L "$E2E_MARK" "$@"; }
    tmux -f /dev/null new-session -d -x 100 -y 24 \
        "TERM=xterm-256color '$AUTOLAUNCH' --log-dir run sh steps.sh; touch ended; sleep 30" || fail "tmux"
    tmux set-option -g window-size manual
    eventually "a live bar" bash -c "command tmux -L $E2E_MARK capture-pane -p | grep -q 'of a bar'"
    for columns in 70 45 30; do
        tmux resize-window -x $columns
        sleep 0.2
    done
    eventually "the end in a terminal" test -e ended
    tmux capture-pane -p -J -S - >screen.log
    tmux kill-server
    expect "pieces of the bar" 0 "$(grep -c 'of a bar\|##' screen.log)"
    expect "its last state" 1 "$(grep -c 'all of the bar' screen.log)"
fi
nothing_left
echo "passed"
