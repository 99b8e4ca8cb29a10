#!/usr/bin/env bash
# examples/gpt on a GPU: its kernels and cuBLAS agree with the CPU, and compute-sanitizer has nothing to say.
set -u
. "$(dirname "$0")/sanitizer.sh"
program=$AUTOLAUNCH_BINARY_DIR/tests/gpu/gpt_gpu
[ -x "$program" ] || { echo "skipped: examples are not built"; exit 77; }
timeout 120 "$program" || exit $?
timeout 120 "$program" speed || exit 1
command -v compute-sanitizer > /dev/null || { echo "no compute-sanitizer here"; exit 0; }
sanitize 250 memcheck "$program"
# Our kernels alone: what is found in cuBLAS's is not ours to mend. Older sanitizers call the option otherwise.
only=--kernel-name
compute-sanitizer --help | grep -q -e "$only" || only=--kernel-regex
sanitize 250 racecheck "$only" kns=_ZN3gpt "$program"
