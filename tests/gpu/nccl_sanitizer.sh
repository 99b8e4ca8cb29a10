#!/usr/bin/env bash
# compute-sanitizer finds nothing in our kernels and our use of CUDA. One rank.
set -u
. "$(dirname "$0")/lib.sh"
command -v compute-sanitizer > /dev/null || { echo "skipped: no compute-sanitizer here"; exit 77; }
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
for tool in memcheck racecheck initcheck; do
  timeout 180 compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" streams || { echo "FAILED: $tool"; exit 1; }
done
