#!/usr/bin/env bash
# The benches check what they measure: every element, every type and operation, through Session and Communicator::world
# on each backend. Also the table's shape, and what a wrong backend's name says.
set -u
bench=$AUTOLAUNCH_BINARY_DIR/bench
[ -x "$bench/all_reduce_perf" ] || { echo "skipped: this build has no benches"; exit 77; }
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
. "$(dirname "$0")/lib.sh"
failures=0

# sweep NAME ROWS COMMAND...: it must succeed, print so many rows, and find nothing wrong.
sweep() {
  local name=$1 rows=$2
  shift 2
  timeout 200 "$@" > "$out" 2>&1
  local status=$? found
  found=$(grep -cE '^ +[0-9]+ +[0-9]+ +(float|double|bfloat16|int32|int64|uint8) +(sum|prod|min|max) +-1( +[0-9.]+){3} +0( +[0-9.]+){3} +0$' "$out")
  if [ $status -eq 0 ] && [ "$found" -eq "$rows" ] && grep -q '^# Out of bounds values : 0 OK$' "$out" &&
      grep -q '^# Avg bus bandwidth    : ' "$out" && grep -q '^# measured memcpy' "$out"; then
    echo "ok: $name"
  else
    echo "FAILED: $name: status $status, $found good rows of $rows"
    sed 's/^/    /' "$out"
    failures=$((failures + 1))
  fi
}

few=(-b 96 -e 96K -f 1024 -n 2 -w 1)
for collective in all_reduce reduce_scatter; do
  sweep "$collective alone" 48 "$bench/${collective}_perf" "${few[@]}" -d all -o all
done
"$bench/all_reduce_perf" --backend smh > "$out" 2>&1
if [ $? -eq 2 ] && grep -q "there are auto, self, shm, mpi" "$out" && grep -q "did you mean 'shm'" "$out"; then
  echo "ok: an unknown backend is named"
else
  echo "FAILED: an unknown backend: $(cat "$out")"
  failures=$((failures + 1))
fi

if command -v mpirun > /dev/null && [ -x "$bench/mpi_peer_perf" ]; then
  for collective in all_reduce reduce_scatter; do
    for backend in shm mpi; do
      sweep "$collective, 3 ranks on $backend" 48 mpirun --oversubscribe -np 3 "$bench/${collective}_perf" "${few[@]}" \
        -d all -o all --backend $backend
    done
    sweep "$collective, 2 ranks on bare MPI" 2 mpirun --oversubscribe -np 2 "$bench/mpi_peer_perf" $collective "${few[@]}"
  done
else
  echo "not run: several ranks, as there is no mpirun or no MPI in this build"
fi
exit $((failures > 0))
