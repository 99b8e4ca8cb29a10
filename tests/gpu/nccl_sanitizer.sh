#!/usr/bin/env bash
# compute-sanitizer finds nothing in our kernels and our use of CUDA. One rank.
set -u
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/sanitizer.sh"
command -v compute-sanitizer > /dev/null || { echo "skipped: no compute-sanitizer here"; exit 77; }
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
for tool in memcheck racecheck initcheck; do
  sanitize 180 "$tool" "$program" streams
done
