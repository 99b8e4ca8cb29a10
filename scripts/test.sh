#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test that this machine can run.
#
#   scripts/test.sh               `ci`: what is installed and all its tests; `no-options`: a build without the optional
#                                 libraries, and the tests that see the difference
#   scripts/test.sh --sanitizers  also `asan-unit`, the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer, and
#                                 the unit, conformance and integration tests under asan and tsan
#   scripts/test.sh PRESET...     just these presets
#
# A test that fails beside others is tried once more, alone, and named at the end. The last line counts all tests of all
# presets: "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=()
for argument in "$@"; do
    case $argument in
        --sanitizers) presets=(ci asan-unit no-options asan tsan) ;;
        -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
        -*) echo "test.sh: unknown argument '$argument'" >&2; exit 64 ;;
        *) presets+=("$argument") ;;
    esac
done
[ ${#presets[@]} -gt 0 ] || presets=(ci no-options)

scripts/install-deps.sh --tests

# Presets have something of what they compile in common, ci and no-options most. Paths and the working directory are left
# out of the cache's keys: only build folders differ in them. Precompiled headers are of the same sources there, too.
cached() {
    env CCACHE_DIR="${CCACHE_DIR:-$PWD/build/ccache}" CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 \
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime \
        CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"
}

# elapsed SINCE: "3 min 20 s".
elapsed() {
    local seconds=$((SECONDS - $1))
    echo "$((seconds / 60)) min $((seconds % 60)) s"
}

# build PRESET [COMMAND...]: COMMAND runs the compilers.
build() {
    local preset=$1 began=$SECONDS
    shift
    mkdir -p "build/$preset"
    cached cmake --preset "$preset" >"build/$preset/configure.log" 2>&1 || { cat "build/$preset/configure.log"; return 1; }
    grep -E '^-- autolaunch' "build/$preset/configure.log" || true
    cached "$@" cmake --build --preset "$preset" --parallel "$(nproc)" >"build/$preset/build.log" 2>&1 ||
        { grep -E 'FAILED|error' "build/$preset/build.log" | head -n 40; return 1; }
    echo "== $preset: built in $(elapsed $began)"
}

passed=0 failed=0 skipped=0 repeated=()
count() { grep -m1 -oE "[[:space:]]$1=\"[0-9]+\"" "$2" | grep -oE '[0-9]+'; } # WHAT REPORT
# ctest_of PRESET REPORT [OPTION...]
ctest_of() {
    rm -f "$2"
    ctest --preset "$1" --output-junit "$2" "${@:3}" || true
    [ -s "$2" ] || { echo "test.sh: ctest wrote no report for $1" >&2; exit 1; }
}

# A few that fail beside others are tried once more, alone: what a machine under load does to a cluster that is started or to
# a second that is waited for is no fault of the program. They are named at the end.
most_repeated=5
repeat_failed() { # PRESET: sets `bad` to what failed twice
    local report=$PWD/build/$1/repeated-tests.xml names
    names=$(sed -n 's/^[0-9]*://p' "build/$1/Testing/Temporary/LastTestsFailed.log" | paste -sd' ')
    echo "== $1: once more, alone: $names"
    ctest_of "$1" "$report" --rerun-failed --parallel 1
    local again
    again=$(count failures "$report")
    [ "$again" -eq "$bad" ] || repeated+=("$1: $((bad - again)) of $bad: $names")
    bad=$again
}

# run_tests PRESET: and counts them
run_tests() {
    local preset=$1 began=$SECONDS report=$PWD/build/$1/tests.xml total bad off
    echo "== $preset: test"
    ctest_of "$preset" "$report"
    total=$(count tests "$report") bad=$(count failures "$report")
    off=$(($(count skipped "$report") + $(count disabled "$report")))
    [ "$bad" -eq 0 ] || [ "$bad" -gt "$most_repeated" ] || repeat_failed "$preset"
    passed=$((passed + total - bad - off)) failed=$((failed + bad)) skipped=$((skipped + off))
    echo "== $preset: tested in $(elapsed $began)"
}

# Tests wait for much of their time: the next preset is built meanwhile, by compilers that take only what tests leave idle.
idle=(nice -n 19)
! chrt --idle 0 true 2>/dev/null || idle=(chrt --idle 0)
building=
trap '[ -z "$building" ] || kill -- "-$building" 2>/dev/null || true' EXIT
echo "== ${presets[0]}: configure and build"
build "${presets[0]}"
for ((i = 0; i < ${#presets[@]}; i++)); do
    next=${presets[i + 1]:-}
    if [ -n "$next" ]; then
        set -m # a process group of its own, to end it whole
        build "$next" "${idle[@]}" >"build/$next.log" 2>&1 &
        building=$!
        set +m
    fi
    run_tests "${presets[i]}"
    if [ -n "$next" ]; then
        echo "== $next: configure and build, begun beside the tests"
        wait "$building" || { cat "build/$next.log"; exit 1; }
        building=
        cat "build/$next.log"
    fi
done

[ "$((passed + failed))" -gt 0 ] || { echo "test.sh: no test was run" >&2; exit 1; }
echo "all in $(elapsed 0)"
[ ${#repeated[@]} -eq 0 ] || printf 'failed beside others, and passed alone, in %s\n' "${repeated[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
