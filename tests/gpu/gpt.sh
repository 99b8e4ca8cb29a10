#!/usr/bin/env bash
# examples/gpt on a GPU: its kernels and cuBLAS agree with the CPU, and compute-sanitizer has nothing to say.
set -u
program=$AUTOLAUNCH_BINARY_DIR/tests/gpu/gpt_gpu
[ -x "$program" ] || { echo "skipped: examples are not built"; exit 77; }
timeout 120 "$program" || exit $?
timeout 120 "$program" speed || exit 1
command -v compute-sanitizer > /dev/null || { echo "no compute-sanitizer here"; exit 0; }
for tool in memcheck racecheck; do
  timeout 250 compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" > /tmp/gpt_sanitizer.$$ 2>&1 ||
    { echo "FAILED: $tool"; tail -30 /tmp/gpt_sanitizer.$$; rm -f /tmp/gpt_sanitizer.$$; exit 1; }
  rm -f /tmp/gpt_sanitizer.$$
  echo "ok: $tool"
done
