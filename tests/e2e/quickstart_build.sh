#!/bin/bash
# How the quick start configures and builds, seen from outside, with a cmake and a ninja that only say what they would do:
# its plan, its progress with and without a terminal, errors, and how it is broken off and goes on.
. "$(dirname "$0")/lib.sh"

tree="$work/a tree"
mkdir -p "$tree/configs" "$tree/lib/src" "$tree/launcher" "$tree/examples/gpt" "$work/bin"
cp -r "$AUTOLAUNCH_SOURCE_DIR/scripts" "$tree/scripts"
touch "$tree/lib/src/a.cpp" "$tree/launcher/b.cpp"
export PATH=$work/bin:$PATH FAKES=$work TERM=xterm
export CMAKE_BUILD_PARALLEL_LEVEL=2
unset COLUMNS LINES

fake() { # NAME: its script comes on stdin
    { echo '#!/bin/bash'; cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
fake dpkg-query <<'END'
echo -n "install ok installed"
END
# Makes an `autolaunch` that reports one step of training, where the real one would be built.
fake cmake <<'END'
case $1 in
    --version) echo "cmake version ${FAKE_VERSION:-3.25.1}" ;;
    --preset)
        echo "$*" >>"$FAKES/configured"
        echo "-- Looking for everything"
        if [ -n "${FAKE_CONFIGURE_ERROR:-}" ]; then
            printf 'CMake Error at x.cmake:1:\n  no %s\n' "$FAKE_CONFIGURE_ERROR"
            exit 1
        fi
        mkdir -p build/release/launcher build/release/examples/gpt
        echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/release/CMakeCache.txt
        cat >build/release/launcher/autolaunch <<'PROGRAM'
#!/bin/bash
mkdir -p "$2"
echo '{"event":"step","rank":0,"step":1,"total_steps":1,"loss":1.5}' >"$2/events.jsonl"
PROGRAM
        chmod +x build/release/launcher/autolaunch
        touch build/release/build.ninja ;;
    --build)
        [ -z "${FAKE_NO_NINJA:-}" ] || { echo "Error: could not start ninja" >&2; exit 1; }
        echo "$*" >>"$FAKES/built"
        exec ninja -C "$2" ;;
esac
END
# Twenty steps. With FAKE_HANG the tenth goes on for ever, as a compiler whose process id is in $FAKES/compiler.
fake ninja <<'END'
steps=20
[ "$3" = -n ] && { echo "[$steps/$steps] Linking"; exit 0; }
for ((i = 1; i <= steps; i++)); do
    if [ "$i" = 10 ] && [ -n "${FAKE_HANG:-}" ]; then
        sleep 1000 &
        echo "$! $$" >"$FAKES/compiler"
        wait
    fi
    if [ "$i" = "${FAKE_FAIL:-}" ]; then
        printf 'FAILED: b.o \nc++ -DLONG_COMMAND_LINE -c b.cpp\nb.cpp:1: error: %s\n' "${FAKE_ERROR:-no such thing}"
        echo "[$((i + 1))/$steps 1.0] Building c.o"
        echo "ninja: build stopped: subcommand failed."
        exit 1
    fi
    [ -z "${FAKE_SLOW:-}" ] || sleep 0.02
    status=${NINJA_STATUS//%f/$i} status=${status//%t/$steps} status=${status//%e/1.234}
    echo "${status}Building CXX object part_$i.o"
done
END

# quickstart EXPECTED_CODE [ARGUMENTS...]: without a terminal; leaves out.log and err.log
quickstart() {
    local expected=$1 code=0
    shift
    (cd / && AUTOLAUNCH_QUICKSTART_RUNS="$work/runs" "$tree/scripts/quickstart.sh" --no-kill "$@") \
        >"$work/out.log" 2>"$work/err.log" </dev/null || code=$?
    expect "exit code of quickstart.sh $*" "$expected" "$code"
}
# on_a_terminal EXPECTED_CODE COLUMNS: of that width; stdin of this function is what is typed; leaves terminal.log
on_a_terminal() {
    local code=0 command="stty cols $2; '$tree/scripts/quickstart.sh' --no-kill"
    AUTOLAUNCH_QUICKSTART_RUNS="$work/runs" timeout --foreground -k 1 40 script -qec "$command" /dev/null \
        >"$work/terminal.log" || code=$?
    expect "exit code on a terminal" "$1" "$code"
}
compiler_is_there() { [ -s "$work/compiler" ]; }
# ends PID...: none of them runs any more; a zombie that nobody buries in this container does not count
ends() {
    local pid
    for pid in "$@"; do
        ! grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$pid/status" 2>/dev/null || return 1
    done
}
all_ended() {
    read -r -a left <"$work/compiler"
    ends "${left[@]}" || fail "left running: ${left[*]}"
}

# The plan comes first and tells what is done, how much of it, and for how long.
quickstart 0
contains "nothing is to be installed" "$work/out.log" "1. installs nothing"
contains "what is built" "$work/out.log" "2. builds about 2 sources in build/release, 2 at a time: about "
contains "what is trained" "$work/out.log" "3. trains a small GPT on two ranks: about"
expect "the plan's line is the first" 1 "$(grep -n 'quickstart: on this machine' "$work/out.log" | cut -d: -f1)"
contains "as many compilers as were asked for" "$work/built" "--parallel 2 --target autolaunch gpt"

# Without a terminal: a line each tenth, none more, and no control characters.
expect "a line each tenth" "10 20 30 40 50 60 70 80 90 100" \
    "$(sed -n 's/^quickstart: building: \([0-9]*\) %.*/\1/p' "$work/out.log" | xargs)"
contains "steps are counted" "$work/out.log" "building: 50 %, 10/20,"
expect "control characters without a terminal" 0 "$(grep -c $'[\r\e]' "$work/out.log")"
contains "it trains" "$work/out.log" "autolaunch -c configs/quickstart.yaml"

# Again: it was configured, and that is not done twice; the plan knows what is left.
quickstart 0
expect "configured" 1 "$(wc -l <"$work/configured")"
contains "what is left is known" "$work/out.log" "of which 20 steps are left"

# On a terminal a bar, in its place: each redraw fits the width, also of 40 columns, and the last one is wiped off.
for columns in 100 40; do
    FAKE_SLOW=yes on_a_terminal 0 "$columns" </dev/null
    contains "a bar at $columns columns" "$work/terminal.log" "building [#"
    contains "the bar counts at $columns columns" "$work/terminal.log" "10/20, "
    widest=$(tr '\r' '\n' <"$work/terminal.log" | grep '^building' | sed 's/\x1b\[K.*//' | wc -L)
    [ "$widest" -lt "$columns" ] || fail "the bar is $widest wide on a terminal of $columns"
    tr '\n' '@' <"$work/terminal.log" | grep -q $'\r\e\\[Kquickstart: built in' || fail "the bar was not wiped off"
done
# Nobody knows how long a configuration takes: what it does now, and no bar.
rm "$tree/build/release/build.ninja"
on_a_terminal 0 80 </dev/null
contains "what the configuration does" "$work/terminal.log" " s, Looking for everything"
expect "a bar for the configuration" 0 "$(grep -c 'configuring \[' "$work/terminal.log")"
# One that cannot redraw gets plain lines.
TERM=dumb on_a_terminal 0 80 </dev/null
contains "plain lines on a dumb terminal" "$work/terminal.log" "quickstart: building: 50 %, 10/20,"
expect "escapes on a dumb terminal" 0 "$(grep -c $'\e' "$work/terminal.log")"

# An error of the build: what failed and what it said, not the command line; the log's path; not zero.
FAKE_FAIL=7 quickstart 1
contains "the target that failed" "$work/err.log" "FAILED: b.o"
contains "what the compiler said" "$work/err.log" "b.cpp:1: error: no such thing"
contains "the log's path" "$work/err.log" "build/release/build.log"
expect "command lines and steps in the error" 0 "$(grep -c 'LONG_COMMAND_LINE\|Building c.o' "$work/err.log")"
contains "all of it is in the log" "$tree/build/release/build.log" "LONG_COMMAND_LINE"
FAKE_NO_NINJA=yes quickstart 1
contains "an error that is not ninja's" "$work/err.log" "Error: could not start ninja"
FAKE_FAIL=7 FAKE_ERROR="Killed signal terminated program cc1plus" quickstart 1
contains "what to do when memory does not suffice" "$work/err.log" "CMAKE_BUILD_PARALLEL_LEVEL=1"

# Ctrl-C: typed on a terminal, and as a signal to the script alone. The compiler ends, and the next run goes on.
rm -f "$work/compiler"
{
    eventually "the hanging step" compiler_is_there
    printf '\003'
    eventually "the end after Ctrl-C" test -e "$work/ended"
} | { FAKE_HANG=yes on_a_terminal 130 80 && touch "$work/ended"; } || exit 1
contains "it says that it goes on" "$work/terminal.log" "run it again, and it goes on from here"
tr '\n' '@' <"$work/terminal.log" | grep -q $'\r\e\\[Kquickstart: broken off' || fail "the bar stays after Ctrl-C"
all_ended
for signal in INT TERM; do
    rm -f "$work/compiler"
    FAKE_HANG=yes env --default-signal=INT "$tree/scripts/quickstart.sh" >"$work/out.log" 2>"$work/err.log" </dev/null &
    script=$!
    eventually "the hanging step" compiler_is_there
    kill "-$signal" "$script"
    code=0
    wait "$script" || code=$?
    expect "exit code after SIG$signal" $((128 + $(kill -l "$signal"))) "$code"
    contains "it says that it goes on" "$work/err.log" "run it again, and it goes on from here"
    all_ended
done
quickstart 0
expect "configured after it was broken off" 2 "$(wc -l <"$work/configured")"

# A configuration that failed or was broken off: told, and the next one starts from nothing.
rm "$tree/build/release/build.ninja"
FAKE_CONFIGURE_ERROR=compiler quickstart 1
contains "CMake's error" "$work/err.log" "  no compiler"
contains "the configuration's log" "$work/err.log" "build/release/configure.log"
quickstart 0
contains "nothing of the old is kept" <(tail -n 1 "$work/configured") "--fresh"
# One of another folder, from which this one was copied, is not trusted either.
echo "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere" >"$tree/build/release/CMakeCache.txt"
quickstart 0
expect "configured in all" 5 "$(wc -l <"$work/configured")"

# Tools that do not do are named.
FAKE_VERSION=3.18.4 quickstart 69
contains "an old cmake" "$work/err.log" "is version 3.18.4; 3.25 or newer is needed"
CXX=no-such-compiler quickstart 69
contains "no compiler" "$work/err.log" "there is no no-such-compiler in PATH; scripts/install-deps.sh"

# How many compilers at once: as CPUs are there and memory suffices for, at least one.
. "$AUTOLAUNCH_SOURCE_DIR/scripts/lib/machine.sh"
expect "64 cores, memory for all" 64 "$(parallel_jobs 64 262144)"
expect "64 cores, 8 GiB" 5 "$(parallel_jobs 64 8192)"
expect "one core" 1 "$(parallel_jobs 1 262144)"
expect "hardly any memory" 1 "$(parallel_jobs 4 300)"
echo "passed"
