#!/bin/bash
# What the plan says is what the ranks get: CPUs from the kernel's own account, OMP_NUM_THREADS, and the user's values.
. "$(dirname "$0")/lib.sh"

[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3 to read the plan with"
all_cpus=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
first=${all_cpus%%[-,]*}
show='echo "cpus $(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"; echo "omp $OMP_NUM_THREADS"'
cores=$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)

cat >spec.yaml <<SPEC
trainer:
  command: [/bin/sh, -c, '$show']
resource_management:
  ranks_per_node: 2
  binding: exclusive
SPEC
env -u OMP_NUM_THREADS "$AUTOLAUNCH" plan -c spec.yaml --json >plan.json 2>err.log || fail "no plan"
env -u OMP_NUM_THREADS "$AUTOLAUNCH" -c spec.yaml --log-dir run >out.log 2>err.log </dev/null
expect "exit code" 0 "$?"

# RANK EXPRESSION over `rank`, of plan.json; a list of CPUs in the kernel's form.
planned() {
    /usr/bin/python3 - "$@" <<'PYTHON'
import itertools, json, sys
rank = json.load(open("plan.json"))["ranks"][int(sys.argv[1])]
def as_list(cpus):
    runs = [[c for _, c in run] for _, run in itertools.groupby(enumerate(cpus), lambda pair: pair[1] - pair[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
environment = {variable["name"]: variable["value"] for variable in rank["environment"]}
print(eval(sys.argv[2]))
PYTHON
}
for rank in 0 1; do
    got=run/generation-0/rank-$rank/stdout
    expect "CPUs of rank $rank" "$(planned $rank 'as_list(rank["cpus"])')" "$(sed -n 's/^cpus //p' $got)"
    expect "OMP_NUM_THREADS of rank $rank" "$(planned $rank 'environment["OMP_NUM_THREADS"]')" "$(sed -n 's/^omp //p' $got)"
done
if [ "$cores" -ge 2 ]; then
    [ "$(sed -n 's/^cpus //p' run/generation-0/rank-0/stdout)" != "$(sed -n 's/^cpus //p' run/generation-0/rank-1/stdout)" ] ||
        fail "exclusive ranks share their CPUs on a machine of $cores cores"
fi

OMP_NUM_THREADS=7 "$AUTOLAUNCH" -c spec.yaml --log-dir own resource_management.binding=none >out.log 2>err.log </dev/null
expect "exit code" 0 "$?"
contains "the user's OMP_NUM_THREADS" own/generation-0/rank-1/stdout "omp 7"
contains "binding none leaves the CPUs alone" own/generation-0/rank-1/stdout "cpus $all_cpus"

# Never wider than what autolaunch itself may use.
taskset -c "$first" "$AUTOLAUNCH" -c spec.yaml --log-dir narrow >out.log 2>err.log </dev/null
expect "exit code" 0 "$?"
for rank in 0 1; do contains "a narrowed mask" narrow/generation-0/rank-$rank/stdout "cpus $first"; done

# A list with an entry a local rank, from the spec and from the option; what cannot be is refused before anything starts.
if [ "$(nproc)" -ge 2 ]; then
    "$AUTOLAUNCH" -c spec.yaml --log-dir listed 'resource_management.binding=[core:1, core:0]' >out.log 2>err.log </dev/null
    expect "exit code with a list" 0 "$?"
    if [ "$cores" -ge 2 ]; then
        expect "CPUs of rank 0 by list" "$(sed -n 's/^cpus //p' run/generation-0/rank-1/stdout)" \
            "$(sed -n 's/^cpus //p' listed/generation-0/rank-0/stdout)"
    fi
    "$AUTOLAUNCH" -c spec.yaml --log-dir option --numa-binding "$first;$all_cpus" >out.log 2>err.log </dev/null
    expect "exit code with a list as option" 0 "$?"
    contains "CPUs by option" option/generation-0/rank-0/stdout "cpus $first"
    contains "CPUs by option" option/generation-0/rank-1/stdout "cpus $all_cpus"
fi
"$AUTOLAUNCH" -c spec.yaml --log-dir short 'resource_management.binding=[core:0]' >out.log 2>err.log </dev/null
expect "exit code of a list that is too short" 1 "$((! ! $?))"
contains "a list that is too short" err.log "resource_management.binding has 1 entry, but 2 ranks start on"
[ ! -d short/generation-0 ] || fail "ranks were started in spite of a list that is too short"

# More ranks than a low limit on open files has room for; the ranks keep that limit.
(
    ulimit -S -n 128
    "$AUTOLAUNCH" --nproc-per-node 80 --log-dir many /bin/sh -c 'echo "files $(ulimit -S -n)"' >out.log 2>err.log </dev/null
)
expect "exit code of 80 ranks with 128 files" 0 "$?"
expect "ranks with the limit as it was" 80 "$(cat many/generation-0/rank-*/stdout | grep -cx 'files 128')"
echo "passed"

# The kernel's own account: all are bound, and one that leaves its CPUs is named, once.
contains "placed as planned" err.log "  placed    80/80 ranks as planned in "
if [ "$cores" -ge 2 ]; then
    cat >drift.yaml <<SPEC
trainer:
  command: [/bin/sh, -c, '[ \$LOCAL_RANK = 0 ] || taskset -cp $all_cpus \$\$; sleep 2']
resource_management:
  ranks_per_node: 2
  binding: exclusive
monitoring:
  interval_seconds: 0.2
SPEC
    "$AUTOLAUNCH" -c drift.yaml --log-dir drift >out.log 2>err.log </dev/null
    expect "exit code" 0 "$?"
    contains "the warning" err.log "1 of 2 ranks left the place that was planned: local rank 1 may run on CPUs $all_cpus"
    expect "drifts told" 1 "$(grep -c '"event":"placement_drift"' drift/events.jsonl)"
fi
