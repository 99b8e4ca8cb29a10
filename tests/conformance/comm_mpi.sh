#!/usr/bin/env bash
# The communicator suite on the mpi backend, under mpirun, with 1 to 5 ranks.
set -u
program=$AUTOLAUNCH_BINARY_DIR/tests/conformance/mpi_conformance
command -v mpirun > /dev/null || { echo "skipped: no mpirun here"; exit 77; }
[ -x "$program" ] || { echo "skipped: this build has no mpi backend"; exit 77; }
out=$(mktemp) || exit 1
trap 'rm -rf "$out" "$out.d"' EXIT

. "$(dirname "$0")/lib.sh"
failures=0

fail() {
  echo "FAILED: $*"
  sed 's/^/    /' "$out"
  failures=$((failures + 1))
}

# start RANKS ARGS...: the output is in $out, the exit status is mpirun's.
start() {
  local ranks=$1
  shift
  timeout 200 mpirun --oversubscribe -np "$ranks" "$program" "$@" > "$out" 2>&1
}

# Cases that leave the group usable: mpirun must end well, and every rank must have passed every case.
usable() {
  local ranks=$1
  start "$@" && echo "ok: $ranks ranks, ${*:2}" || fail "$ranks ranks, ${*:2}"
  local passed
  passed=$(grep -c '^passed ' "$out")
  [ "$passed" -ge $((ranks * 8)) ] || fail "$ranks ranks, ${*:2}: only $passed cases passed"
}

# Cases after which the group is aborted: the ranks end without MPI_Finalize, so count what they say.
aborting() {
  local ranks=$1 case=$2 passed
  rm -rf "$out.d" && mkdir "$out.d"
  MPI_CONFORMANCE_DIR=$out.d start "$ranks" "$case"
  passed=$(grep -c "^passed $case\$" "$out")
  if [ "$passed" -eq "$ranks" ]; then echo "ok: $ranks ranks, $case"; else fail "$ranks ranks, $case: $passed passed"; fi
}

for ranks in 1 2 3 4 5; do usable "$ranks" all; done
usable 3 --pieces 1000 all    # elements a piece: buffers as long as INT_MAX elements go the same way
for case in abort_ends_everything abort_wakes_others abort_from_another_thread absent_rank_times_out; do
  aborting 3 "$case"
done
exit $((failures > 0))
