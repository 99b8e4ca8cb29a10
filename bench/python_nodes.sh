#!/bin/bash
# How long Python ranks of many nodes take to their first line where interpreter and packages are on one slow shared file system:
#
#     bench/python_nodes.sh BUILD VENV [NODES] [LATENCY_S] [MB_PER_S]        # as root
#
# Each node is a set of namespaces on this machine (tests/e2e/machines.sh) with a mount of its own of bench/slow_fs.py, and so a
# page cache of its own that is empty before each run; one limit is shared by all of them, as one server is. Two ranks a node import
# IMPORTS (torch). Lines: no preloading; preloading, which records what it reads; the same with that record, read ahead; read by one
# node and handed on to the others, into folders of the nodes' own (/tmp of each, in memory) that are empty; the same with these
# folders as they are then. Seconds are from the command to the slowest rank's first line; megabytes and requests are what the
# server gave to all nodes, "most" to the one that read most of them.
bench=$(readlink -f "${BASH_SOURCE[0]%/*}")
build=$(readlink -f "$1") venv=$(readlink -f "$2") nodes=${3:-8} latency=${4:-0.002} rate=${5:-200}
export AUTOLAUNCH=$build/launcher/autolaunch AUTOLAUNCH_BINARY_DIR=$build AUTOLAUNCH_SOURCE_DIR=${bench%/*}
. "$bench/../tests/e2e/machines.sh"
. "$bench/../tests/e2e/lib.sh"
unset PYTHONDONTWRITEBYTECODE LD_PRELOAD PYTHONPATH PYTHONHOME
export HOME=$work/home XDG_STATE_HOME=$work/state OMP_NUM_THREADS=1 MACHINE_LIMIT=600
names=()
for ((i = 0; i < nodes; i++)); do names+=("node$i"); done
start_machines "${names[@]}"
mkdir slow
cat >rank.py <<PY
import ${IMPORTS:-torch}
import os, time
print("first line", time.time())
PY
echo "trainer: {preload_cache: /tmp/copies}" >handed.yaml
# run_all NAME OPTION...: on all nodes at once, with nothing cached
run_all() {
    local name=$1 node servers=() agents=() begun i
    shift
    rm -rf run share stats-* && : >share
    for node in "${names[@]}"; do
        on "$node" /usr/bin/python3 "$bench/slow_fs.py" --latency "$latency" --mb-per-second "$rate" --share "$work/share" \
            --stats "$work/stats-$node" "$venv" "$work/slow" >"mount-$node" 2>&1 &
        servers+=($!)
    done
    for node in "${names[@]}"; do eventually "a mount on $node" grep -q ready "mount-$node"; done
    begun=$(date +%s.%N)
    for i in "${!names[@]}"; do
        on "${names[i]}" "$AUTOLAUNCH" run --nnodes "$nodes" --node-rank "$i" --nproc-per-node 2 --rdzv-endpoint node0 \
            --rdzv-id "bench-$name" --log-dir run "$@" -- slow/bin/python rank.py >"$name-$i.log" 2>&1 </dev/null &
        agents+=($!)
    done
    for i in "${!agents[@]}"; do wait "${agents[i]}" || fail "$name on node $i exits with $?"; done
    grep -h "started by itself\|starts by itself" "$name"-*.log && fail "ranks were not forked"
    kill "${servers[@]}"
    wait "${servers[@]}"
    /usr/bin/python3 - "$name" "$begun" <<'PY'
import glob, json, sys
name, begun = sys.argv[1], float(sys.argv[2])
times = [float(line.split()[2]) for file in glob.glob("run/generation-0/rank-*/stdout")
         for line in open(file) if line.startswith("first line")]
stats = [json.load(open(file)) for file in glob.glob("stats-*")]
print("%-10s %3d ranks  first line %6.1f s  %6.0f MB, most %5.0f MB  %6d reads  %6d other requests" % (
    name, len(times), max(times) - begun, sum(s["bytes"] for s in stats) / 1e6, max(s["bytes"] for s in stats) / 1e6,
    sum(s["reads"] for s in stats), sum(s["lookups"] + s["opens"] + s["others"] for s in stats)), flush=True)
PY
}
for way in ${WAYS:-plain recording ahead handed again}; do
    case $way in
    plain) run_all plain --preload off ;;
    handed | again) run_all "$way" -c handed.yaml --preload auto --preload-from node ;;
    *) run_all "$way" --preload auto ;;
    esac
done
