#!/bin/bash
# What ranks write on their node's own disk and where it goes when the job ends (storage.stage_out): over restarts, failures, stops
# and kills, with targets that have something else; and what `autolaunch stage-out` and gc make of what stays.
. "$(dirname "$0")/lib.sh"
scratch=$work/scratch
out=$scratch/autolaunch-$(id -u)/out
cat >train.yaml <<END
trainer:
  command: [/bin/sh, -c, "true"]
  mpi: none
  env: {MARK: x}
storage:
  scratch: $scratch
  stage_out:
    - {from: res, to: results}
    - {from: model, to: $work/models, when: success, layout: node}
resource_management: {ranks_per_node: 2}
restart: {grace_period: 1s}
monitoring: {log_path: runs, resource_tracking: false}
END
run() { timeout 60 "$AUTOLAUNCH" run -c train.yaml --log-dir "$@"; }
node=$(hostname)
left() { ls "$out"; }

# What plan says of it.
"$AUTOLAUNCH" plan -c train.yaml >plan.log 2>&1 || fail "no plan"
grep -Eq "AUTOLAUNCH_OUT_RES +to $work/results +at every end · it will be made" plan.log || fail "what plan says: $(cat plan.log)"
grep -Eq "AUTOLAUNCH_OUT_MODEL +to $work/models +if all ranks succeed · a folder a node" plan.log || fail "what plan says: $(cat plan.log)"
"$AUTOLAUNCH" plan --json -c train.yaml | python3 -c '
import json, sys
out = json.load(sys.stdin)["staging"]["out"]
assert [item["variable"] for item in out] == ["AUTOLAUNCH_OUT_RES", "AUTOLAUNCH_OUT_MODEL"], out' || fail "plan --json"
[ -e "$scratch" ] && fail "plan has made a folder"

# A restart finds what was there; all of it is copied once, and goes here. The first rank that fails has the other one stopped: not before
# both have written.
run one restart.max_restarts=1 restart.backoff=0s -- /bin/sh -c \
    'echo $AUTOLAUNCH_OUT_RES >>place.$RANK; echo $AUTOLAUNCH_GENERATION >>$AUTOLAUNCH_OUT_RES/log.$RANK; echo w >$AUTOLAUNCH_OUT_MODEL/m
    until [ -s $AUTOLAUNCH_OUT_RES/log.0 ] && [ -s $AUTOLAUNCH_OUT_RES/log.1 ]; do sleep 0.01; done; [ $AUTOLAUNCH_GENERATION = 1 ]' >one.log 2>&1 ||
    fail "the first job"
expect "places over a restart" 1 "$(sort -u place.? | wc -l)"
expect "what came" "0 1 0 1" "$(cat results/log.? | xargs)"
expect "a folder a node" w "$(cat "models/$node/m")"
expect "what stays" "" "$(left)"
grep -q "copied    res of $node: 8 B in 2 files to $work/results in " one.log || fail "no line of it: $(cat one.log)"
contains "the event" one/events.jsonl '"event":"data_staged_out","node":"'"$node"'","name":"res"'

# Failed ranks: what is always to come comes, the rest stays, is named and goes by gc's rules alone.
says 3 "copied    res of $node: 2 B in 1 file" "$AUTOLAUNCH" run -c train.yaml --log-dir two -- /bin/sh -c 'echo f >$AUTOLAUNCH_OUT_RES/failed; echo m >$AUTOLAUNCH_OUT_MODEL/m; exit 3'
expect "what came of the failed job" f "$(cat results/failed)"
job=$(left)
says 0 "model to $work/models: 2 B in 1 file (when: success): its job failed; --even-failed copies it" "$AUTOLAUNCH" stage-out -c train.yaml
says 0 "stays" "$AUTOLAUNCH" gc --scratch "$scratch"
says 64 "--discard removes what was not copied" "$AUTOLAUNCH" stage-out --scratch "$scratch" --discard
says 66 "has nothing of nobody" "$AUTOLAUNCH" stage-out --scratch "$scratch" nobody
says 73 "models/$node/m is there already, with another content" "$AUTOLAUNCH" stage-out --scratch "$scratch" --even-failed "$job" --layout node
says 0 "removed       $job" "$AUTOLAUNCH" stage-out --scratch "$scratch" --discard "$job"
expect "what stays" "" "$(left)"
expect "the model" w "$(cat "models/$node/m")"

# Somebody else's file of that name is never touched; ranks that succeeded are no success then.
echo other >results/mine
says 73 "succeeded, but not all that it wrote was copied out" "$AUTOLAUNCH" run -c train.yaml --log-dir three -- /bin/sh -c 'echo $RANK >$AUTOLAUNCH_OUT_RES/r$RANK; echo mine >$AUTOLAUNCH_OUT_RES/mine'
expect "the other's file" other "$(cat results/mine)"
expect "files beside it" "0 1" "$(cat results/r? | xargs)"
job=$(left)
grep '"event":"data_left"' three/events.jsonl | python3 -c '
import json, sys
left = json.loads(sys.stdin.readline())
assert left["files"] == 1 and left["exit_code"] == 73 and left["folder"].endswith(sys.argv[1]), left
assert left["command"] == f"autolaunch stage-out --scratch {sys.argv[2]} {sys.argv[1]}", left' "$job" "$scratch" || fail "the event of what stays"
says 0 "was not copied out" "$AUTOLAUNCH" gc --scratch "$scratch" --apply --older-than 0s
[ "$(left)" = "$job" ] || fail "gc has removed results"
run warned -- true >warned.log 2>&1 || fail "a job after that"
contains "what the next job says" warned.log "$out/$job was not copied out"
"$AUTOLAUNCH" stage-out --scratch "$scratch" --list --json >out.log || fail "--list --json"
json 'd["jobs"][0]["state"] == "left" and d["jobs"][0]["end"] == "succeeded" and d["jobs"][0]["entries"][0]["files"] == 3'
says 0 "copied        $job: res to $work/results" "$AUTOLAUNCH" stage-out --scratch "$scratch" --overwrite "$job"
expect "the other's file by the user's word" mine "$(cat results/mine)"
expect "what stays" "" "$(left)"

# The agent is killed: nobody copies, nothing is lost, and the command does it.
agent() { pgrep -P "$(pgrep -P $job_pid)" -x autolaunch; }
begin() { # NAME COMMAND SPEC...
    local name=$1 command=$2
    shift 2
    rm -f begun
    "$AUTOLAUNCH" run -c train.yaml --log-dir "$name" "$@" -- /bin/sh -c "$command" >"$name.log" 2>&1 &
    job_pid=$!
    eventually "the start of $name" test -e begun
}
begin killed 'echo $RANK >$AUTOLAUNCH_OUT_RES/k$RANK; touch begun; exec sleep 60'
says 0 "its job runs, or another process copies it" "$AUTOLAUNCH" stage-out --scratch "$scratch" --list
kill -9 "$(agent)"
wait $job_pid
expect "what came of the killed job" "" "$(ls results | grep '^k')"
"$AUTOLAUNCH" gc --scratch "$scratch" --apply --older-than 0s >gc.log 2>&1
says 0 "copied" "$AUTOLAUNCH" stage-out --scratch "$scratch"
expect "what came of the killed job later" "0 1" "$(cat results/k? | xargs)"

# The agent is killed while it copies: its copier ends with it, and the command goes on.
slow='head -c 400000 /dev/zero >$AUTOLAUNCH_OUT_RES/slow$RANK; touch begun'
begin copying "$slow" storage.throttle=400KB
copies() { ls -A results | grep -q '^\.autolaunch-.*\.part$'; }
eventually "a copy on its way" copies
kill -9 "$(agent)"
wait $job_pid
# Its lock of the job's folder goes with it.
copier_gone() { "$AUTOLAUNCH" stage-out --scratch "$scratch" --list | grep -q "^left"; }
eventually "the end of the copier" copier_gone
expect "what has its name half-way" "" "$(ls results | grep '^slow')"
says 0 "copied" "$AUTOLAUNCH" stage-out --scratch "$scratch"
expect "bytes of what was copied then" "800000" "$(cat results/slow? | wc -c)"
expect "what is unfinished" "" "$(ls -A results | grep '^\.autolaunch')"
rm results/slow?

# Somebody ends the wait: the time of a stop is left, and what stays is said, with the command.
begin hurried "$slow" storage.throttle=300KB
eventually "a copy on its way" copies
kill -TERM $job_pid
code=0
wait $job_pid || code=$?
expect "the exit code of a job that had no time" 69 $code
contains "what stays" hurried.log "the job's time was over before all of it was copied"
expect "what is unfinished is of the next attempt" 1 "$(left | wc -l)"
job=$(left)
"$AUTOLAUNCH" stage-out --scratch "$scratch" --discard "$job" >/dev/null || fail "--discard"

# What a stop keeps for the copies.
"$AUTOLAUNCH" plan -c train.yaml restart.kill_wait=5s >plan.log 2>&1 || fail "no plan"
contains "what plan says of a scheduler" plan.log "copies have what ranks leave of the 5 s until its SIGKILL"
"$AUTOLAUNCH" plan -c train.yaml storage.stage_out_time=90s >plan.log 2>&1 || fail "no plan"
grep -Eq "time for it +90 s +kept before the time limit and a scheduler" plan.log || fail "what plan says: $(cat plan.log)"
begin reserved 'trap "" TERM; echo >$AUTOLAUNCH_OUT_RES/kept$RANK; touch begun; while :; do sleep 0.1; done' \
    restart.kill_wait=5s restart.grace_period=60s storage.stage_out_time=2s
kill -TERM "$(agent)"
code=0
wait $job_pid || code=$?
expect "the exit code of ranks that did not stop" 143 $code
contains "what ranks have" reserved.log "SIGKILL comes 5.0 s (restart.kill_wait) after SIGTERM, and storage.stage_out_time is 2.0 s: the ranks have 2.0 s"
expect "what came of them" 2 "$(ls results | grep -c '^kept')"

# What is wrong in the spec: at its line.
wrong() {
    sed "$1" train.yaml >wrong.yaml
    says 65 "$2" "$AUTOLAUNCH" validate wrong.yaml
}
wrong 's/from: model/from: Res/' 'wrong.yaml:9:7: storage.stage_out[1].from: "Res" is the name of what goes to results already'
wrong 's|to: results|to: ./models/|; s|/.*/models,|models,|' 'storage.stage_out[1].to: models is where res goes already'
says 65 'storage.stage_out_time: is for storage.stage_out, which names nothing' "$AUTOLAUNCH" validate train.yaml storage.stage_out_time=1m storage.stage_out=[]
wrong 's/from: res/from: a-b/' 'storage.stage_out[0].from: expected a name of letters, digits and _'
wrong 's/, to: results//' 'storage.stage_out[0]: says not to'
wrong 's/to: results/to: results, wen: always/' 'storage.stage_out[0].wen: unknown key; did you mean "when"?'
wrong 's/when: success/when: never/' 'storage.stage_out[1].when: expected always, or success'
wrong 's/layout: node/layout: rank/' 'storage.stage_out[1].layout: expected flat'
wrong 's|to: results|to: "https://example.org/a?sig=canary"|' 'storage.stage_out[0].to: https://example.org/a?… is no place that files can go to'
wrong 's|to: results|to: "s3:///a"|' 'storage.stage_out[0].to: s3:///a names no bucket'
wrong 's|to: results|to: "s3://b/../c"|' 'storage.stage_out[0].to: s3://b/../c has an empty name, . or ..'
wrong "s|to: results|to: $scratch/x|" "storage.stage_out[0].to: $scratch/x is in storage.scratch"
says 65 "storage.stage_out: res and model both go to $work/models" "$AUTOLAUNCH" run -c train.yaml "storage.stage_out=[{from: res, to: models}, {from: model, to: $work/models}]" -- true

# Without credentials it is known before ranks work for it, and refused as a bucket refuses who asks.
none=(env -u AWS_ACCESS_KEY_ID -u AWS_PROFILE HOME=/nowhere AWS_EC2_METADATA_DISABLED=true "$AUTOLAUNCH" run -c train.yaml 'storage.stage_out=[{from: res, to: s3://bucket/x}]' -- /bin/sh -c 'echo $RANK >$AUTOLAUNCH_OUT_RES/$RANK')
says 77 "warning: storage.stage_out: what ranks write will not come to s3://bucket/x/: no credentials for S3" "${none[@]}"
says 0 "removed" "$AUTOLAUNCH" stage-out --scratch "$scratch" --discard "$(left)"

# A relative scratch is below the job's folder, for the commands too.
mkdir -p there
sed "s|^  scratch: .*|  scratch: near|; s|^trainer:|trainer:\n  workdir: there|" train.yaml >near.yaml
says 1 "" "$AUTOLAUNCH" run -c near.yaml --log-dir near -- /bin/sh -c 'echo w >$AUTOLAUNCH_OUT_MODEL/m; exit 1'
says 0 "its job failed; --even-failed copies it" "$AUTOLAUNCH" stage-out -c near.yaml
says 0 "when: success, and its job failed" "$AUTOLAUNCH" gc -c near.yaml
says 65 "storage.stage_out: s3://B/: not a bucket's name: B" "$AUTOLAUNCH" run -c train.yaml 'storage.stage_out=[{from: res, to: "s3://B/"}]' -- true
nothing_left
count_failures
