#!/usr/bin/env bash
# Backend nccl on a GPU: the communicator suite with one rank, and with two on one GPU, each as a node of its own to NCCL
# (NCCL_HOSTID), over sockets.
set -u
. "$(dirname "$0")/lib.sh"
failures=0

# ranks N CASE: every rank must pass. The longest waits 5 s in each kind of call.
ranks() {
  local count=$1 case=$2 out
  # Not by the number of lines: those that ranks have in common are one.
  if out=$(timeout 150 "$AUTOLAUNCH" -n "$count" -- bash -c 'NCCL_HOSTID=rank-$RANK exec "$0" "$1"' "$program" "$case" 2>&1) &&
    grep -q "passed $case" <<< "$out"; then
    echo "ok: $count ranks, $case"
  else
    echo "FAILED: $count ranks, $case"
    sed 's/^/    /' <<< "$out"
    failures=$((failures + 1))
  fi
}

export NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
for count in 1 2; do
  ranks "$count" streams
  while read -r case least; do
    [ "$count" -ge "$least" ] && ranks "$count" "$case"
  done < <("$program" list)
done
exit $((failures > 0))
