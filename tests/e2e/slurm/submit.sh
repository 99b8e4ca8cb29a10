#!/bin/bash
# autolaunch submit on a real Slurm: sbatch takes what is rendered, the number is alone on stdout, the job goes by the spec
# as it was, --wait ends with the job's code, and what Slurm refuses is passed on whole.
. "$(dirname "$0")/lib.sh"
start_cluster 2

# sub ARGUMENTS...: autolaunch submit on the head; sets `code`, and `job` to what it printed
sub() {
    code=0
    login autolaunch submit "$@" >out.log 2>err.log || code=$?
    job=$(<out.log)
}
# train COMMAND [KEYS OF slurm_config]: writes train.yaml
train() {
    printf 'trainer:\n  command: "%s"\nlogging: {quiet: true}\nslurm_config:\n  job_name: small\n  time_limit: 5\n' "$1" >train.yaml
    [ -z "${2:-}" ] || printf '  %s\n' "${@:2}" >>train.yaml
}

is_pending() { [ "$(job_field "$1" JobState)" = PENDING ]; }

test_sbatch_takes_what_is_rendered() {
    local keys i=0
    while read -r keys; do
        train /bin/true
        login autolaunch submit -c train.yaml $keys --dry-run >"job-$i.sh" 2>err.log || fail "$keys: $(cat err.log)"
        login sbatch --test-only "job-$i.sh" >out.log 2>&1 || fail "sbatch refuses $keys: $(cat out.log "job-$i.sh")"
        i=$((i + 1))
    done <<'END'
slurm_config.nodes=2
slurm_config.array=0-9:3 slurm_config.array_throttle=2
slurm_config.dependency=singleton slurm_config.gpus_per_node=2
slurm_config.gres=gpu:1 slurm_config.mem=1G slurm_config.exclusive=true
slurm_config.signal=R:USR1@60 slurm_config.requeue=false
slurm_config.switches=1@60 slurm_config.constraint= slurm_config.mail_type=END,FAIL
resource_management.nodes.min=1 resource_management.nodes.max=2 slurm_config.nodelist=node[1-2]
slurm_config.extra_args=[--comment=x#y,--nice=5,--contiguous] slurm_config.job_name=a#b%c(d)
slurm_config.output=logs-%x-%j.out slurm_config.error=e-%A.err slurm_config.time_limit=UNLIMITED
slurm_config.cpus_per_task=4 resource_management.cpu_cores_per_gpu=2 slurm_config.exclude=node2
END
    expect "scripts" 10 "$i"
}
test_number_alone_and_the_jobs_own_code() {
    train 'exit 3' 'output: logs/out-%j.log'
    sub -c train.yaml --wait
    expect "exit code: $(cat err.log)" 3 "$code"
    [[ $job =~ ^[0-9]+$ ]] || fail "on stdout: $job"
    contains "the estimate" err.log "autolaunch: job $job (small): Slurm expects to start it at 20"
    contains "the folder" err.log "made the folder $PWD/logs"
    contains "the end" err.log "job $job ended: FAILED, exit code 3"
    [ -s "logs/out-$job.log" ] || fail "no output of the job"
    expect "mode of the stored spec" 640 "$(stat -c %a runs/.submitted/small-*/spec.yaml)"
    grep -q "\"job_id\": \"$job\"" runs/.submitted/small-*/submission.json || fail "no record of the job's number"
}
test_nodes_that_have_the_data_are_preferred() {
    mkdir -p data && echo tokens >data/a
    train 'cat $AUTOLAUNCH_DATA_TOKENS/a' 'output: data-%j.log'
    printf 'storage: {scratch: %s, stage_in: [{from: data, as: tokens}]}\n' $scratch >>train.yaml
    sub -c train.yaml slurm_config.nodelist=node2 --wait
    expect "exit code: $(cat err.log "data-$job.log")" 0 "$code"
    sub -c train.yaml --wait
    contains "the hint" err.log "storage.stage_in: earlier jobs have left this data on node2: Slurm takes these where it can (--prefer)"
    expect "exit code: $(cat err.log "data-$job.log")" 0 "$code"
    expect "where it ran" node2 "$(login scontrol show job "$job" | sed -n 's/^ *NodeList=//p')"
    sub -c train.yaml slurm_config.nodes=2 --hold
    contains "too few" err.log "earlier jobs have left this data on node2, 1 of the 2 nodes that the job needs"
    login scancel "$job"
    drop_scratch
}
test_a_small_job_stages_first() {
    local staging
    mkdir -p first && echo tokens >first/a
    train 'cat $AUTOLAUNCH_DATA_TOKENS/a' 'output: first-%j.log' 'nodes: 2'
    printf 'storage: {scratch: %s, stage_in: [{from: first, as: tokens}]}\n' "$scratch" >>train.yaml
    sub -c train.yaml --stage-first --dry-run
    contains "its script" out.log "stage-in -c $PWD/runs/.submitted/small-"
    sub -c train.yaml --stage-first --wait --json
    expect "exit code: $(cat err.log first-*.log runs/.submitted/small-*/stage-in.log)" 0 "$code"
    contains "where it goes" err.log "--stage-first: the data goes to node[1-2], where Slurm expects to start the job; Slurm takes these for it where it can (--prefer)"
    job=$(sed -n 's/.*"job_id": "\([0-9]*\)".*/\1/p' out.log) staging=$(sed -n 's/.*"staging_job": "\([0-9]*\)".*/\1/p' out.log)
    contains "what the job waits for" err.log "waits for job $staging, which stages its data"
    expect "how the staging ended" "COMPLETED node[1-2]" "$(job_field "$staging" JobState) $(job_field "$staging" NodeList)"
    contains "what was staged" runs/.submitted/small-*/stage-in.log "staged    tokens: 7 B in 1 file in "
    contains "the job" "runs/$job/events.jsonl" '"name":"tokens","path"'
    expect "what it found on both nodes" 2 "$(grep -h '"event":"data_staged"' "runs/$job"/events*.jsonl | grep -c '"was_here":true')"
    expect "the newest run" "$job" "$(readlink runs/latest)"
    # A staging that fails, or that Slurm drops, keeps no job from its own.
    echo more >first/b
    sub -c train.yaml --stage-first --wait slurm_config.setup='["[[ $SLURM_JOB_NAME != *-stage-in ]] || exit 3"]'
    expect "exit code: $(cat err.log)" 0 "$code"
    grep -h '"event":"data_staged"' "runs/$job"/events*.jsonl | grep -q '"was_here":false' || fail "the job behind a staging that failed found it all"
    # What cannot be: nothing is submitted, neither of them.
    sub -c train.yaml --stage-first slurm_config.array=0-1
    expect "an array" 65 "$code"
    contains "an array" err.log "--stage-first is of one job, and this is an array"
    sub -c train.yaml --stage-first slurm_config.extra_args='[--prefer=nothing-has-this&&]'
    [ "$code" != 0 ] || fail "Slurm takes a job that makes no sense: $(cat err.log)"
    expect "jobs that are left" "" "$(login squeue -h -n small-stage-in,small)"
    # Slurm takes the job that stages and refuses the other one: a sbatch before the real one sends that to no partition.
    mkdir refusing && printf '#!/bin/sh\ncase $* in *afterany*) set -- --partition=nowhere "$@" ;; esac\necho "$*" >>%s/asked\nexec %s "$@"\n' "$PWD" "$(command -v sbatch)" >refusing/sbatch
    chmod 755 refusing/sbatch
    local before=$(ls runs/.submitted)
    PATH=$PWD/refusing:$PATH sub -c train.yaml --stage-first slurm_config.setup='["sleep 60"]' # longer than anybody waits here
    expect "exit code of what Slurm refuses" 69 "$code"
    contains "sbatch's own words" err.log "invalid partition specified: nowhere"
    contains "what was said of the other one" err.log "--stage-first"
    expect "what sbatch was asked" 3 "$(grep -c . asked)"
    eventually "the taking back of the job that stages" no_jobs
    expect "folders that are left" "$before" "$(ls runs/.submitted)"
    drop_scratch
}
test_a_requeue_and_an_array_read_the_spec_as_it_was() {
    train 'echo seed $SEED; [ ${SLURM_RESTART_COUNT:-0} = 1 ] || exec sleep 60' 'array: 3' 'output: out-%a.log'
    printf '  setup: [export SEED=$((40 + SLURM_ARRAY_TASK_ID))]\n' >>train.yaml
    sub -c train.yaml trainer.env='{WORD: "${WORD:-first}"}' --hold --json
    expect "exit code: $(cat err.log)" 0 "$code"
    job=$(sed -n 's/.*"job_id": "\([0-9]*\)".*/\1/p' out.log)
    contains "it is held" err.log "is held: scontrol release $job"
    train 'echo another; exit 9'
    login scontrol release "$job"
    eventually "the first start" grep -q 'seed 43' out-3.log
    login scontrol requeue "$job" || fail "no requeue"
    eventually "the requeue" is_pending "$job"
    login scontrol update job="$job" StartTime=now+2 || fail "no start" # else Slurm waits for two minutes
    eventually "the end" job_ended "$job"
    expect "starts" 2 "$(grep -c 'seed 43' out-3.log)"
    expect "state" COMPLETED "$(job_field "$job" JobState)"
}
test_what_slurm_refuses_is_said_in_its_words() {
    train /bin/true 'partition: nowhere'
    sub -c train.yaml
    expect "exit code" 69 "$code"
    expect "stdout" "" "$job"
    contains "sbatch's own words" err.log "invalid partition specified: nowhere"
    [ -z "$(ls runs/.submitted)" ] || fail "left of a job that is none: $(ls runs/.submitted)"
}
test_what_the_cluster_will_not_do_is_said_before() {
    train /bin/true 'array: 0-1001'
    sub -c train.yaml
    expect "exit code of too large an array" 65 "$code"
    contains "the line" err.log "train.yaml:7:10: slurm_config.array: goes up to 1001, and MaxArraySize of this cluster is 1001"
    train /bin/true 'dependency: afterok:4711'
    sub -c train.yaml
    expect "exit code of an unknown job" 65 "$code"
    contains "the line" err.log "train.yaml:7:15: slurm_config.dependency: Slurm knows no job 4711"
    [ ! -e runs/.submitted ] || fail "something was stored"
    login scontrol create reservation ReservationName=yearly StartTime=now+3600 Duration=60 Nodes=ALL Flags=MAINT User=root >/dev/null || fail "no reservation"
    train /bin/true 'requeue: false'
    code=0
    login env SBATCH_COMMENT=mine autolaunch submit -c train.yaml slurm_config.time_limit=120 --hold >out.log 2>err.log || code=$?
    login scontrol delete ReservationName=yearly || fail "the reservation stays"
    expect "exit code: $(cat err.log)" 0 "$code"
    contains "maintenance" err.log "override slurm_config.time_limit=120: slurm_config.time_limit: maintenance yearly begins on"
    contains "who requeues" err.log "train.yaml:7:12: slurm_config.requeue: is false: a job that ends with 75 stays ended, although RequeueExit = 75"
    contains "the environment" err.log "SBATCH_COMMENT is set here"
    login scancel "$(<out.log)"
    eventually "the end of all jobs" no_jobs
}
test_a_snapshot_is_what_starts_run() {
    command -v git >/dev/null || fail "no git: scripts/install-deps.sh --tests"
    export GIT_CONFIG_GLOBAL=$PWD/gitconfig
    git config --global user.email t@example.org && git config --global user.name t && git init -q . || fail "git init"
    echo 'echo "code one $PWD"' >work.sh && echo 'data' >data.bin && printf 'gitconfig\n*.log\n*.bin\n' >.gitignore
    train 'sh work.sh; mkdir -p ckpt' 'output: "%x.log"' 'job_name: kept'
    sed -i '/job_name: small/d' train.yaml
    git add . && git commit -qm one && echo '# not committed' >>work.sh
    sub -c train.yaml --snapshot --hold
    expect "exit code: $(cat err.log)" 0 "$code"
    local kept=$job folder
    folder=$(echo runs/.submitted/kept-*)
    sub -c train.yaml slurm_config.job_name=loose --hold
    expect "exit code: $(cat err.log)" 0 "$code"
    echo 'echo "code two"' >work.sh
    login scontrol release "$kept" "$job"
    eventually "the end of the job with a copy" job_ended "$kept"
    eventually "the end of the job without" job_ended "$job"
    contains "the code as it was" kept.log "code one $PWD/$folder/code"
    grep -q 'is not what it was' kept.log && fail "a copy is said to have changed"
    contains "the code as it is" loose.log "code two"
    contains "what changed" loose.log "the code in $PWD is not what it was when the job was submitted (not committed now: work.sh)"
    contains "the commit" "$folder/submission.json" "$(git rev-parse HEAD)"
    contains "what was not committed" "$folder/code.diff" '+# not committed'
    expect "mode of the diff" 600 "$(stat -c %a "$folder/code.diff")"
    [ ! -e "$folder/code/data.bin" ] || fail "what git ignores was copied"
}
test_a_pipeline_goes_on_as_its_stages_end() {
    local stage jobs
    for stage in prepare fit eval clean; do
        train "echo $stage" 'output: "%x.log"'
        sed "s/name: small/name: $stage/" train.yaml >"$stage.yaml"
    done
    sed -i 's/echo fit/exit 3/' fit.yaml
    printf '%s\n' 'pipeline:' '  - {name: prepare, spec: prepare.yaml}' '  - {name: fit, spec: fit.yaml, after: ok}' \
        '  - {name: eval, spec: eval.yaml, after: ok}' '  - {name: clean, spec: clean.yaml, after: {fit: notok}}' >all.yaml
    sub -c all.yaml
    expect "exit code: $(cat err.log)" 0 "$code"
    read -ra jobs <<<"$(tr '\n' ' ' <out.log)"
    expect "jobs" 4 "${#jobs[@]}"
    contains "what waits for what" err.log "job ${jobs[1]} (fit) waits for afterok:${jobs[0]}"
    eventually "the end of the last stage" job_ended "${jobs[3]}"
    eventually "the end of the stage that cannot start" job_ended "${jobs[2]}"
    expect "the stage after one that failed" CANCELLED "$(job_field "${jobs[2]}" JobState)"
    expect "the stage for that case" COMPLETED "$(job_field "${jobs[3]}" JobState)"
    [ -s prepare.log ] && [ ! -e eval.log ] || fail "$(ls)"
    # A mistake in any of them, and none is submitted.
    echo '  nowhere: 1' >>eval.yaml
    sub -c all.yaml
    expect "exit code of a mistake in a stage" 65 "$code"
    contains "its place" err.log "eval.yaml:8:3: slurm_config.nowhere: unknown key"
    no_jobs || fail "$(login squeue)"
}
test_without_a_controller() {
    train /bin/true
    kill_on head STOP slurmctld
    local began=$SECONDS
    sub -c train.yaml
    kill_on head CONT slurmctld
    expect "exit code" 69 "$code"
    contains "what to try" err.log "scontrol ping"
    [ $((SECONDS - began)) -lt 20 ] || fail "it took $((SECONDS - began)) s"
    [ ! -e runs/.submitted ] || fail "something was stored"
}
run_tests
