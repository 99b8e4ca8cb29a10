#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test that this machine can run.
#
#   scripts/test.sh               `ci`: what is installed and all its tests; `asan-unit`: the unit tests under AddressSanitizer
#                                 and UndefinedBehaviorSanitizer; `no-options`: a build without the optional libraries, and the
#                                 tests that see the difference
#   scripts/test.sh --sanitizers  also the unit, conformance and integration tests under asan and tsan
#   scripts/test.sh PRESET...     just these presets
#
# The last line counts all tests of all presets: "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=()
for argument in "$@"; do
    case $argument in
        --sanitizers) presets=(ci asan-unit no-options asan tsan) ;;
        -h|--help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
        -*) echo "test.sh: unknown argument '$argument'" >&2; exit 64 ;;
        *) presets+=("$argument") ;;
    esac
done
[ ${#presets[@]} -gt 0 ] || presets=(ci asan-unit no-options)

scripts/install-deps.sh --tests

# Presets have something of what they compile in common, ci and no-options most. Paths and the working directory are left
# out of the cache's keys: only build folders differ in them.
cached() {
    env CCACHE_DIR="${CCACHE_DIR:-$PWD/build/ccache}" CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 \
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

passed=0 failed=0 skipped=0
# run_tests PRESET: and counts them
run_tests() {
    local preset=$1 began=$SECONDS report=$PWD/build/$1/tests.xml
    echo "== $preset: test"
    rm -f "$report"
    ctest --preset "$preset" --output-junit "$report" || true
    [ -s "$report" ] || { echo "test.sh: ctest wrote no report for $preset" >&2; exit 1; }
    count() { grep -m1 -oE "[[:space:]]$1=\"[0-9]+\"" "$report" | grep -oE '[0-9]+'; }
    total=$(count tests) bad=$(count failures) off=$(($(count skipped) + $(count disabled)))
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
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
