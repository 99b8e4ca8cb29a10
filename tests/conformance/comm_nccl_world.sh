#!/usr/bin/env bash
# Backend nccl as a trainer gets it: Communicator::world, by name, with the libraries found on LD_LIBRARY_PATH and ids and
# aborts through the session's store. On the fake GPUs (tests/integration/fake_gpu.hpp), under mpirun.
set -u
program=$AUTOLAUNCH_BINARY_DIR/tests/gpu/nccl_gpu
[ -x "$program" ] || { echo "skipped: this build has no nccl backend"; exit 77; }
command -v mpirun > /dev/null || { echo "skipped: no mpirun here"; exit 77; }
. "$(dirname "$0")/lib.sh"
failures=0

# ranks N LIBRARY CASE: every rank must pass.
ranks() {
  local out
  out=$(LD_LIBRARY_PATH=$AUTOLAUNCH_BINARY_DIR/tests/$2 timeout 60 mpirun --oversubscribe -np "$1" "$program" "$3" 2>&1)
  if [ "$(grep -c "^passed $3\$" <<< "$out")" -eq "$1" ]; then
    echo "ok: $1 ranks, $2, $3"
  else
    echo "FAILED: $1 ranks, $2, $3"
    sed 's/^/    /' <<< "$out"
    failures=$((failures + 1))
  fi
}

for library in fake_gpu fake_gpu_218; do
  ranks 1 $library streams
  for case in streams split_by_parity abort_wakes_others absent_rank_times_out; do ranks 3 $library $case; done
done
# Saves beside training agree without NCCL.
program=$AUTOLAUNCH_BINARY_DIR/tests/gpu/fsdp_gpu
[ ! -x "$program" ] || FAKE_NCCL_ONE_THREAD=1 ranks 2 fake_gpu checkpoint
exit $((failures > 0))
