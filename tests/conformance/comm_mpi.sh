#!/usr/bin/env bash
# The communicator suite on the backends mpi and shm+mpi, under mpirun, with 1 to 16 ranks.
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

# start RANKS OPTIONS... CASE: the output is in $out, the exit status is mpirun's.
start() {
  local ranks=$1
  shift
  timeout 100 mpirun --oversubscribe -np "$ranks" "$program" "$@" > "$out" 2>&1
}

# Cases that leave the group usable: mpirun must end well, and every rank must have passed CASES cases.
usable() {
  local cases=$1 ranks=$2 passed
  shift
  start "$@" && echo "ok: $ranks ranks, ${*:2}" || fail "$ranks ranks, ${*:2}"
  passed=$(grep -c '^passed ' "$out")
  [ "$passed" -ge $((ranks * cases)) ] || fail "$ranks ranks, ${*:2}: only $passed cases passed"
}

# Cases after which the group is aborted: the ranks end without MPI_Finalize, so count what they say.
aborting() {
  local ranks=$1 case=${*: -1} passed
  rm -rf "$out.d" && mkdir "$out.d"
  MPI_CONFORMANCE_DIR=$out.d start "$@"
  passed=$(grep -c "^passed $case\$" "$out")
  if [ "$passed" -eq "$ranks" ]; then echo "ok: $*"; else fail "$*: $passed passed"; fi
}

# Everything with few ranks, and what depends on their number with even, odd, prime ones and powers of two up to 16.
usable 9 1 all
for ranks in 2 3 5; do usable 10 $ranks all; done
for ranks in 4 6 7 8 9 11 13 16; do usable 1 $ranks pairs_of_properties; done
usable 10 3 --pieces 1000 all    # bytes a piece: messages longer than MPI can count go the same way
for ranks in 2 3 4 5 7 9; do usable 1 $ranks sums_are_pairwise; done
for ranks in 6 12; do usable 1 $ranks --backend shm+mpi --nodes 3 --fixed-order sums_are_pairwise; done
usable 1 8 --backend shm+mpi --nodes 2 --fixed-order sums_are_pairwise
usable 10 3 --check-calls all
usable 1 3 --thread-level 2 two_groups_on_two_queues    # MPI_THREAD_SERIALIZED
usable 10 4 --backend shm+mpi --nodes 2 all
usable 1 6 --backend shm+mpi --nodes 3 pairs_of_properties
usable 1 6 --backend shm+mpi --nodes 2 every_type_and_operation
usable 1 16 --backend shm+mpi --nodes 4 pairs_of_properties
usable 1 4 --backend shm+mpi --nodes 2 --check-calls pairs_of_properties
# MPI's own collectives as the judge.
usable 1 3 oracle
usable 1 4 --backend shm oracle
usable 1 6 --backend shm+mpi --nodes 2 oracle

for case in abort_ends_everything abort_wakes_others abort_from_another_thread absent_rank_times_out \
  abort_in_each_kind absent_rank_in_each_kind; do
  aborting 3 $case
done
aborting 3 --thread-level 2 abort_in_each_kind
aborting 3 --check-calls each_mismatch_is_named
for case in abort_wakes_others abort_from_another_thread abort_in_each_kind absent_rank_in_each_kind; do
  aborting 4 --backend shm+mpi --nodes 2 $case
done
aborting 4 --backend shm+mpi --nodes 2 --check-calls each_mismatch_is_named
exit $((failures > 0))
