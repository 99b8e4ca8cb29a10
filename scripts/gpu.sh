#!/usr/bin/env bash
# Checks and measures on this machine's GPU all that needs one, unattended: builds, runs the tests of label gpu (NCCL, sharded
# models, optimizers, checkpoints, the GPT; compute-sanitizer where it is), then the benches, beside PyTorch where that is.
#
#   scripts/gpu.sh [check] [bench]     both where none is named; one a call where time is short
#
#   BUILD=build/release   where it is built, by the release preset; what is there is brought up to date
#   PYTHON=python3        one whose PyTorch has CUDA
#
# What cannot run says "skipped: why". Exits with 1 where something failed, and with 77 where there is no GPU. Logs are in
# $BUILD/gpu.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${BUILD:-build/release} python=${PYTHON:-python3}

parts=()
for argument in "$@"; do
    case $argument in
        check|bench) parts+=("$argument") ;;
        -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "gpu.sh: there is no part '$argument': check and bench are" >&2; exit 64 ;;
    esac
done
[ ${#parts[@]} -gt 0 ] || parts=(check bench)
[ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || { echo "skipped: no GPU (there is no /dev/nvidiactl)"; exit 77; }

mkdir -p "$build/gpu"
log=$build/gpu/build.log
echo "== build"
# Whatever compiler is here may warn of more than ours do.
cmake --preset release -B "$build" -DAUTOLAUNCH_WERROR=OFF -DAUTOLAUNCH_BUILD_TESTS=ON > "$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
grep -E '^-- autolaunch' "$log"
grep -qE '^-- autolaunch.* in:.* CUDA .*NCCL[ ;]' "$log" ||
    { echo "skipped: this build has no CUDA or no NCCL; scripts/install-deps.sh --list names what is missing"; exit 77; }
cmake --build "$build" --parallel "$(nproc)" --target autolaunch gpu_programs >> "$log" 2>&1 ||
    { grep -E 'FAILED|error' "$log" | head -n 40; echo "FAILED: build, see $log"; exit 1; }

# cached NAME: what the build found.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

PATH=$PATH:$(cached CUDAToolkit_BIN_DIR)  # for compute-sanitizer
# The NCCL that the build found need not be one that the linker finds. PyTorch has its own, and keeps it.
nccl=$(dirname "$(cached NCCL_LIBRARY)")

run_check() { LD_LIBRARY_PATH=$nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ctest --test-dir "$build" -L '^gpu$' -V; }

run_bench() {
    command -v "$python" > /dev/null || { echo "skipped: there is no $python"; return 77; }
    "$python" bench/gpu "$build" --libraries "$nccl"
}

status=0
for part in "${parts[@]}"; do
    echo "== $part"
    log=$build/gpu/$part.log
    "run_$part" 2>&1 | tee "$log"
    result=${PIPESTATUS[0]}
    # There is a GPU, said its device node: a test that finds none has failed.
    ! grep -q 'skipped: no GPU' "$log" || result=1
    [ "$result" -eq 0 ] || [ "$result" -eq 77 ] || { echo "FAILED: $part, see $log"; status=1; }
done
exit $status
