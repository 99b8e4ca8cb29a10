#!/bin/bash
# The scripts of `autolaunch render slurm` as a real Slurm's Prolog, Epilog and HealthCheckProgram: dcgm-exporter's files say
# whose each GPU is while the job runs, a killed job's metrics are gone after it, what was staged goes when it is to, and a node
# that is not fit gets no job.
. "$(dirname "$0")/lib.sh"
for_all_users
chmod 755 "$work"
textfiles=$work/textfiles
mkdir "$textfiles"
"$AUTOLAUNCH" render slurm --output "$work/scripts" --textfile-dir "$textfiles" >out.log 2>&1 || fail "render: exit code $?"
# The node's fitness is a file's here; everything else is autolaunch's own.
cat >autolaunch-here <<END
#!/bin/sh
if [ "\$1" = doctor ] && [ -e "$work/unfit-\$(hostname)" ]; then
    echo "[node_problem] gpus: a GPU is lost"
    exit 78
fi
exec "$AUTOLAUNCH" "\$@"
END
chmod 755 autolaunch-here
sed -i "s|^autolaunch=.*|autolaunch=$work/autolaunch-here|" scripts/*.sh
export CLUSTER_GPUS=4 CLUSTER_CONF=$(sed "s|/etc/slurm/|$work/scripts/|" scripts/slurm.conf.lines)
start_cluster 2

mapping() { "$cluster" on "$1" sh -c 'cd /run/autolaunch/gpu-jobs && grep -H . [0-9]* | paste -sd" "' 2>/dev/null; } # NODE
mapping_is() { [ "$(mapping "$1")" = "$2" ]; }
running() { [ "$(job_field "$1" JobState)" = RUNNING ]; }
state_of() { login sinfo -hN -n "$1" -o %T; }
state_is() { [ "$(state_of "$1")" = "$2" ]; }

test_gpus_of_jobs_are_told() {
    local first second
    submit -N1 -w node1 --gpus=2 <<<'sleep 300'
    first=$job
    submit -N2 --gpus-per-node=1 <<<'sleep 300'
    second=$job
    eventually "the first job" running "$first"
    eventually "the second job" running "$second"
    eventually "the files on node1" mapping_is node1 "0:$first 1:$first 2:$second"
    eventually "the files on node2" mapping_is node2 "0:$second"
    expect "names that dcgm-exporter may take" "" "$("$cluster" on node1 ls /run/autolaunch/gpu-jobs | grep -vE '^[0-9]+(\.[0-9]+)?$')"
    login scancel "$first"
    eventually "the end of the first" mapping_is node1 "2:$second"
    login scancel "$second"
    eventually "the end of the second" mapping_is node1 ""
    eventually "the end of the second on node2" mapping_is node2 ""
    expect "nodes" "idle idle" "$(login sinfo -hN -o %T | paste -sd' ')"
}
test_what_a_killed_job_left_goes() {
    touch "$textfiles/other.prom"
    batch -N1 -w node1 <<END
touch $textfiles/autolaunch_\${SLURM_JOB_ID}_0.prom $textfiles/autolaunch_\${SLURM_JOB_ID}0_0.prom
END
    only_others() { [ "$(cd "$textfiles" && echo *)" = "autolaunch_${job}0_0.prom other.prom" ]; }
    eventually "the end of its metrics, and of no other job's" only_others
}
# user_job UID FILE KEEP COMMAND...: submits a job of that user's that stages the file; sets `job`
user_job() {
    printf 'storage: {%sstage_in: [{from: %s, as: d}]}\nmonitoring: {log_path: %s, resource_tracking: false}\n' \
        "${3:+keep: $3, }" "$PWD/$2" "$PWD/runs" >"$2.yaml"
    chmod 644 "$2.yaml"
    job=$(login setpriv --reuid "$1" --regid "$1" --clear-groups env HOME=/ sbatch --parsable -N1 -w node1 -D "$PWD/runs" -o "%j.log" \
        --wrap "exec autolaunch run -c $PWD/$2.yaml --log-dir $PWD/runs/$2 -- ${*:4}") || fail "sbatch as user $1"
}
user_batch() { user_job "$@" && eventually "the end of job $job" job_ended "$job"; }
staged() { # UID: whose files that node has, by its sources
    "$cluster" on node1 sh -c "sed -sn 3p /var/tmp/autolaunch-$1/stage/sources/*" 2>/dev/null | sed 's|.*/||' | sort | xargs
}
aged() { "$cluster" on node1 sh -c 'touch -d "2 hours ago" /var/tmp/autolaunch-*/stage/data/*'; } # all of it was used last then
trees() { "$cluster" on node1 ls "/var/tmp/autolaunch-$1/stage/data" | wc -l; } # UID
# Of users that every Debian has; each node with a disk of its own. Slurm calls a job ended once its Epilog has been.
test_staged_data_goes_when_it_is_to() {
    local his=1 hers=5 long
    all_hosts mount -t tmpfs -o mode=1777 tmpfs /var/tmp || fail "no disk for the nodes"
    mkdir -m 1777 runs
    for file in used short stays other; do echo "$file" >"$file" && chmod 644 "$file"; done
    user_job $his used 1h sh -c "'touch $PWD/runs/now; until [ -e $PWD/over ]; do sleep 0.05; done; grep -q used \$AUTOLAUNCH_DATA_D'"
    long=$job
    eventually "a job that uses it" test -e runs/now
    user_batch $hers other 1h true
    user_batch $his short 1h true
    expect "what ended a moment ago" "short used" "$(staged $his)"
    aged
    user_batch $his stays "" true
    expect "after its keep, beside what a job uses and what has a week" "stays used" "$(staged $his)"
    expect "trees" 2 "$(trees $his)"
    expect "another user's, whose keep has passed, too" other "$(staged $hers)"
    touch over
    eventually "the end of the job that used it" job_ended "$long"
    expect "how it ended: $(cat "runs/$long.log")" COMPLETED "$(job_field "$long" JobState)"
    expect "what a job has used to its end" "stays used" "$(staged $his)"
    aged
    submit -N1 -w node1 <<<true # root's
    eventually "root's job" job_ended "$job"
    expect "after a job of root's" "stays used, other" "$(staged $his), $(staged $hers)"
    user_batch $his stays "" true
    expect "after the keep that began at that job's end" "stays, other" "$(staged $his), $(staged $hers)"
    user_batch $hers other "" true
    expect "of a job that has no keep any more" other "$(staged $hers)"
    expect "the node" idle "$(state_of node1)"
    all_hosts umount /var/tmp
}
test_unfit_node_gets_no_job() {
    touch "$work/../unfit-node2"
    submit -N1 -w node2 <<<'true'
    eventually "the node's drain" state_is node2 drained
    job_ended "$job" && fail "the job ran on a node that is not fit"
    rm "$work/../unfit-node2"
    login scontrol update nodename=node2 state=resume
    login scontrol release "$job" 2>/dev/null
    login scontrol update jobid="$job" starttime=now 2>/dev/null
    eventually "the job, once the node is fit" job_ended "$job"
    expect "how it ended" COMPLETED "$(job_field "$job" JobState)"
}
test_health_check_has_nothing_to_say_of_a_fit_node() {
    "$cluster" on node1 env -i sh "$work/../scripts/autolaunch-health.sh" >out.log 2>&1 || fail "exit code $?"
    expect "what it says" "" "$(cat out.log)"
    state_is node1 idle || fail "node1 is $(state_of node1)"
}
run_tests
