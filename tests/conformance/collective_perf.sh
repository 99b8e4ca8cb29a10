#!/usr/bin/env bash
# The benches check what they measure: every element, every type, operation and root, through Session and
# Communicator::world on each backend, by every program. Also the table's shape, and what a wrong backend's name says.
set -u
bench=$AUTOLAUNCH_BINARY_DIR/bench
[ -x "$bench/all_reduce_perf" ] || { echo "skipped: this build has no benches"; exit 77; }
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
. "$(dirname "$0")/lib.sh"
failures=0
collectives="all_reduce reduce_scatter all_gather broadcast reduce alltoall gather scatter sendrecv hypercube"
types='int8|uint8|int32|uint32|int64|uint64|half|float|double|bfloat16'
half='( +[0-9.e+]+){3} +'

# A rank waits 2 s for mpirun's answer to its MPI_Finalize and then ends without it: a busy mpirun hears of the end first,
# and calls it one without MPI_Finalize.
mpirun_was_late() { [ $status -ne 0 ] && grep -q 'exiting improperly' "$out" && grep -q '^# Avg bus bandwidth    : ' "$out"; }
# sweep NAME ROWS COMMAND...: it must succeed, print so many rows, and find nothing wrong.
sweep() {
  local name=$1 rows=$2 status=0 found
  shift 2
  timeout 200 "$@" > "$out" 2>&1 || status=$?
  if mpirun_was_late; then
    echo "once more: $name: mpirun took a rank's end for one without MPI_Finalize"
    status=0
    timeout 200 "$@" > "$out" 2>&1 || status=$?
  fi
  found=$(grep -cE "^ +[0-9]+ +[0-9]+ +($types) +(sum|prod|min|max|avg|mulsum|none) +(-1|[0-9]+)${half}0${half}(0|N/A)\$" "$out")
  if [ $status -eq 0 ] && [ "$found" -eq "$rows" ] && grep -q '^# Out of bounds values : 0 OK$' "$out" &&
      grep -q '^# Avg bus bandwidth    : ' "$out"; then
    echo "ok: $name"
  else
    echo "FAILED: $name: status $status, $found good rows of $rows"
    sed 's/^/    /' "$out"
    failures=$((failures + 1))
  fi
}
# rows_of COLLECTIVE RANKS SIZES TYPES OPS
rows_of() {
  case $1 in
    all_reduce | reduce_scatter) echo $(($3 * $4 * $5)) ;;
    reduce) echo $(($2 * $3 * $4 * $5)) ;;
    broadcast | gather | scatter) echo $(($2 * $3 * $4)) ;;
    hypercube) if [ $(($2 & ($2 - 1))) -eq 0 ]; then echo $(($3 * $4)); else echo 0; fi ;;
    *) echo $(($3 * $4)) ;;
  esac
}

# Every type on shm and alone; on the others of all_reduce, and of the rest one: conformance.comm_mpi and comm_nccl have them all.
types_of() { [ "$1" = all_reduce ] && echo 10 || echo 1; }
words_of() { [ "$1" = all_reduce ] && echo all || echo half; }

few=(-b 96 -e 96K -f 1024 -n 2 -w 1)
for collective in $collectives; do
  sweep "$collective alone" "$(rows_of $collective 1 2 10 6)" "$bench/${collective}_perf" "${few[@]}" -d all -o all -r all
done
"$bench/all_reduce_perf" --backend smh > "$out" 2>&1
if [ $? -eq 2 ] && grep -q "there are auto, .*self, shm, mpi" "$out" && grep -q "did you mean shm?" "$out"; then
  echo "ok: an unknown backend is named"
else
  echo "FAILED: an unknown backend: $(cat "$out")"
  failures=$((failures + 1))
fi

if command -v mpirun > /dev/null && [ -x "$bench/mpi_peer_perf" ]; then
  for collective in $collectives; do
    sweep "$collective, 3 ranks on shm" "$(rows_of $collective 3 2 10 6)" \
      mpirun --oversubscribe -np 3 "$bench/${collective}_perf" "${few[@]}" -d all -o all -r all --backend shm
    sweep "$collective, 4 ranks on shm's own memory, in groups" "$(rows_of $collective 4 2 1 1)" \
      mpirun --oversubscribe -np 4 "$bench/${collective}_perf" "${few[@]}" -r all -R 1 \
      $([ $collective = hypercube ] || echo -m 3) -u 1 --backend shm
    case $collective in # sums of bytes are left out, so types and operations make no product
      *reduce*) rows=$(rows_of $collective 2 2 1 30) ;;
      *) rows=$(rows_of $collective 2 2 8 1) ;;
    esac
    sweep "$collective, 2 ranks on MPI itself" "$rows" \
      mpirun --oversubscribe -np 2 "$bench/mpi_peer_perf" $collective "${few[@]}" -d all -o all -r all
  done
  for collective in $collectives; do
    sweep "$collective, 3 ranks on mpi" "$(rows_of $collective 3 2 "$(types_of $collective)" 6)" \
      mpirun --oversubscribe -np 3 "$bench/${collective}_perf" "${few[@]}" -d "$(words_of $collective)" -o all -r all --backend mpi
  done
  sweep "hypercube, 4 ranks on mpi" "$(rows_of hypercube 4 2 10 6)" \
    mpirun --oversubscribe -np 4 "$bench/hypercube_perf" "${few[@]}" -d all --backend mpi
  # GPU memory and streams, of a CUDA driver and an NCCL without GPUs.
  fake=$AUTOLAUNCH_BINARY_DIR/tests/fake_gpu
  if [ -e "$fake/libcuda.so.1" ]; then
    for collective in $collectives; do
      sweep "$collective, 2 ranks on fake GPUs" "$(rows_of $collective 2 2 "$(types_of $collective)" 6)" \
        env LD_LIBRARY_PATH="$fake" mpirun --oversubscribe -np 2 "$bench/${collective}_perf" "${few[@]}" \
        -d "$(words_of $collective)" -o all -r all --backend nccl
    done
    sweep "all_reduce, 2 ranks on fake GPUs, registered and in groups" 2 env LD_LIBRARY_PATH="$fake" mpirun --oversubscribe \
      -np 2 "$bench/all_reduce_perf" "${few[@]}" -R 2 -m 3 --backend nccl
    for collective in all_reduce reduce alltoall hypercube; do
      sweep "$collective, 2 ranks on fake GPUs, as CUDA graphs" 2 env LD_LIBRARY_PATH="$fake" mpirun --oversubscribe -np 2 \
        "$bench/${collective}_perf" "${few[@]}" -G 3 --backend nccl
    done
  else
    echo "not run: backend nccl, which is not in this build"
  fi
else
  echo "not run: several ranks, as there is no mpirun or no MPI in this build"
fi
exit $((failures > 0))
