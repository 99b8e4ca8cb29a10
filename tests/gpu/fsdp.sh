#!/usr/bin/env bash
# Sharded models, optimizers and checkpoints of a GPU have the CPU's bits: one rank, and two on one GPU, each as a node of
# its own to NCCL. compute-sanitizer finds nothing. Then AdamW's speed, for whoever reads the log.
set -u
. "$(dirname "$0")/sanitizer.sh"
program=$AUTOLAUNCH_BINARY_DIR/tests/gpu/fsdp_gpu
[ -x "$program" ] || { echo "skipped: this build has no kernels for GPUs"; exit 77; }
export NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
for case in train checkpoint; do
  timeout 200 "$program" $case
  status=$?
  [ $status -eq 0 ] || exit $status
  # Not by the number of lines: those that ranks have in common are one.
  out=$(timeout 400 "$AUTOLAUNCH" -n 2 -- bash -c 'NCCL_HOSTID=rank-$RANK exec "$0" "$1"' "$program" $case 2>&1) &&
    grep -q "passed $case" <<< "$out" || { echo "FAILED: 2 ranks, $case"; sed 's/^/    /' <<< "$out"; exit 1; }
  echo "ok: 2 ranks, $case"
done
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck initcheck; do
    sanitize 250 "$tool" "$program" train quick
  done
else
  echo "no compute-sanitizer here"
fi
timeout 100 "$program" bench
