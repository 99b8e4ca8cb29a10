#!/bin/bash
# `autolaunch gc` of run directories and checkpoints: what goes is of a job that is over, old enough and nobody's need; what cannot
# be known stays, with its reason; without --apply nothing goes. And its form for Slurm's Epilog.
. "$(dirname "$0")/lib.sh"
gc() { timeout 60 "$AUTOLAUNCH" gc --scratch "$work/scratch" "$@" >gc.log 2>&1 || fail "gc $*: $(cat gc.log)"; }
run() { timeout 60 "$AUTOLAUNCH" run --log-dir "$@" >run.log 2>&1 </dev/null; }
line() { grep -E "^$1 +$2(: .*)? \\($3" gc.log >/dev/null || fail "no '$1 $2 ($3': $(cat gc.log)"; }
aged() { # FOLDER...: its events and files are of 2020
    local folder
    for folder in "$@"; do
        sed -i -E 's/"time":"[0-9]{4}-[0-9]{2}-[0-9]{2}T/"time":"2020-01-02T/' "$folder/events.jsonl"
        find "$folder" -exec touch -h -d 2020-01-02 {} +
    done
}
run runs/good -- true || fail "a run"
run runs/bad -- false && fail "a run that fails"
run runs/trained -- sh -c 'touch "$AUTOLAUNCH_RUN_DIR/model.pt"' || fail "a run with a file of its own"
run runs/young -- true || fail "a run"
# Of one that was killed with all that watches it, no end is recorded.
run runs/killed -- true || fail "a run"
sed -i '/"event":"\(job\|generation\)_ended"/d' runs/killed/events.jsonl && rm runs/killed/exit.json
for d in good bad trained killed; do cp -a runs/$d keep.$d && aged runs/$d; done
touch go
run runs/now -- sh -c "while [ -e $work/go ]; do sleep 0.05; done" &
holder=$!
eventually "a run" grep -qs rank_started runs/now/events.jsonl
find runs/now -exec touch -h -d 2020-01-02 {} +

before=$(ls runs)
gc runs
line "would go" runs/good "succeeded; ended"
line "would go" runs/bad "failed; ended"
line "would go" runs/killed "was heard of last"
line stays runs/trained "it has what autolaunch did not write: model.pt"
line stays runs/young "succeeded; ended .* ago, kept for 7 d"
line stays runs/now "a job runs in it"
expect "nothing is gone" "$before" "$(ls runs)"
gc runs --state succeeded
line "would go" runs/good "succeeded; ended"
line stays runs/bad "it failed"
sleep 1.1
gc runs/young --older-than 0
line "would go" runs/young "succeeded; ended"

# Its head was on another machine, which alone has the lock; a job that names another's folder may go on from it.
sed -i 's/"hostname": *"[^"]*"/"hostname":"elsewhere"/' runs/killed/head.json
sed -i "s|\"run_dir\":|\"restore\": \"$work/runs/good/x\", &|" runs/now/plan.json
gc runs
line stays runs/killed "no end is recorded, and its head was on elsewhere: look from there"
line stays runs/good "the job of runs/now names it"
# A job of Slurm's that may be requeued: where Slurm does not answer, it stays.
sed -i 's/"run_id":"[^"]*"/"run_id":"4711.0"/' runs/bad/events.jsonl
sed -i 's/\("event":"job_ended".*"exit_code":\)[0-9]*/\175/' runs/bad/events.jsonl
aged runs/bad
gc runs
line stays runs/bad "Slurm does not answer whether job 4711 is over"
printf '#!/bin/sh\necho "slurm_load_jobs error: Invalid job id specified" >&2; exit 1\n' >scontrol && chmod +x scontrol # a stand-in
PATH=$work:$PATH gc runs
line "would go" runs/bad ""
printf '#!/bin/sh\necho "JobId=4711 JobState=PENDING Reason=BeginTime"\n' >scontrol
PATH=$work:$PATH gc runs
line stays runs/bad "job 4711 is PENDING"
echo '{"job_id": "4711"}' >runs/good/submission.json && touch -d 2020-01-02 runs/good/submission.json
PATH=$work:$PATH gc runs/good
line stays runs/good "job 4711 is PENDING"
rm runs/good/submission.json && aged runs/good
rm scontrol

gc runs --apply --json
python3 - <<'EOF' || fail "the JSON: $(cat gc.log)"
import json
d = json.load(open("gc.log"))
assert d["applied"] and {r["folder"]: r["what"] for r in d["runs"]}["runs/now"] == "stays"
assert d["bytes"] == sum(r["bytes"] for r in d["runs"] if r["what"] == "removed")
EOF
rm go && wait $holder || fail "the job beside gc"
sed -i "s|\"restore\": [^,]*,||" runs/now/plan.json
gc runs --apply
grep -qx "nothing is staged here: there is no folder $work/scratch" gc.log || fail "no word of a scratch that is not there: $(cat gc.log)"
line removed runs/good "succeeded; ended"
expect "what is left" "bad killed now trained young" "$(ls runs | xargs)"

# Another user's stays, whatever root may do.
if [ "$(id -u)" = 0 ]; then
    cp -a keep.good runs/his && aged runs/his && chown -R 2001 runs/his
    gc runs --apply
    line stays runs/his "it is of user 2001"
    # In the Epilog root becomes the job's user, and nobody else.
    for_all_users
    mkdir -m 1777 shared
    echo data >data.txt
    chmod 644 data.txt
    printf 'storage: {scratch: %s, stage_in: [{from: %s, as: d}]}\nmonitoring: {resource_tracking: false}\n' "$work/shared" "$work/data.txt" >his.yaml
    chmod 644 his.yaml
    install -d -o 2001 his
    setpriv --reuid 2001 --regid 2001 --clear-groups env HOME=/ TMPDIR="$work/his" "$AUTOLAUNCH" run -c his.yaml --log-dir "$work/his/run" -- true >his.log 2>&1 ||
        fail "another user's job: $(cat his.log)"
    says 0 "would remove 0 of 0" "$AUTOLAUNCH" gc --scratch "$work/shared" --older-than 0
    sleep 1.1
    # What he may not look into, or cannot remove, is one line, and keeps no other.
    his() { says "$1" "$2" setpriv --reuid 2001 --regid 2001 --clear-groups "$AUTOLAUNCH" gc --scratch "$work/shared" --older-than 1d "${@:3}"; }
    install -d -m 700 "$work/his/closed"
    cp -a keep.good "$work/his/old" && aged "$work/his/old" && chown -R 2001 "$work/his/old"
    his 0 "stays         $work/his/closed (it cannot be read: cannot look at $work/his/closed/events.jsonl: Permission denied)" "$work/his"
    chmod 555 his
    his 71 "stays         $work/his/old: " --apply "$work/his"
    his 71 "(it cannot be removed: cannot create the folder" --apply "$work/his"
    chmod 755 his
    his 0 "removed       $work/his/old: " --apply "$work/his"
    says 0 "removed 1 of 1" env SLURM_JOB_UID=2001 "$AUTOLAUNCH" gc --epilog --apply --scratch "$work/shared" --older-than 0
    says 0 "would remove 0 of 0" env SLURM_JOB_UID=2002 "$AUTOLAUNCH" gc --epilog --scratch "$work/shared" --older-than 0
    for uid in 0 -1 x 4294967295 ""; do
        says 64 "gc --epilog is for root in Slurm's Epilog" env SLURM_JOB_UID="$uid" "$AUTOLAUNCH" gc --epilog --scratch "$work/shared"
    done
fi
says 64 "gc --epilog is of staged data alone" "$AUTOLAUNCH" gc --epilog runs
says 66 "no.yaml" "$AUTOLAUNCH" gc -c no.yaml
says 64 "sideways" "$AUTOLAUNCH" gc runs --state sideways
says 66 "cannot list nothing-there" "$AUTOLAUNCH" gc nothing-there

# Checkpoints, by the spec's rules.
gpt=$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt
[ -x "$gpt" ] || { echo "checkpoints: skipped, examples/gpt is not built" && exit 0; }
export OMP_NUM_THREADS=1
for i in $(seq 60); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >text
cat >job.yaml <<END
trainer: {command: [$gpt], config: {sample_bytes: 0}, workdir: $work}
monitoring: {log_path: $work/jobs, resource_tracking: false}
model: {layers: 1, heads: 1, width: 8, context: 8}
dataloader: {path: text, global_batch: 2}
optimizer: {lr: 0.01, min_lr: 0.01}
step_scheduler: {max_steps: 7, warmup_steps: 0, log_every: 1}
checkpoint: {checkpoint_dir: saved, every: 1, keep: 100}
END
says 0 'done' "$AUTOLAUNCH" -c job.yaml
steps() { ls -d saved/step-*[0-9] | sed 's/.*step-0*//' | xargs; }
expect "what was saved" "1 2 3 4 5 6 7" "$(steps)"
# Another job that has failed may go on from one of them; one that has ended well does not.
for code in 3 0; do
    says $code "" "$AUTOLAUNCH" run -c job.yaml --log-dir "jobs/other$code" checkpoint.checkpoint_dir=elsewhere \
        checkpoint.restore_from="$work/saved/step-0000000$((code % 2 + 1))" -- sh -c "exit $code"
done
sed -i 's/keep: 100/keep: 2, keep_every: 4, restore_from: saved\/step-00000003/' job.yaml
gc -c job.yaml
line stays "$work/saved/step-00000002" "the job of $work/jobs/other3 names it"
line "would go" "$work/saved/step-00000001" "the newest 2, multiples of 4 stay"
line "would go" "$work/saved/step-00000005" "the newest 2, multiples of 4 stay"
line stays "$work/saved/step-00000003" "the spec's checkpoint.restore_from names it"
line stays "$work/jobs/[^/]*" "succeeded; ended .* ago, kept for 7 d"
expect "nothing is gone" "1 2 3 4 5 6 7" "$(steps)"
gc -c job.yaml --apply
expect "what stays" "2 3 4 6 7" "$(steps)"
sed -i 's/restore_from: [^}]*/save_consolidated: false/; s/keep: 2, //' job.yaml
gc -c job.yaml --apply
line stays "$work/saved/step-00000003" "the spec has no checkpoint.keep"
# Who writes there, nobody knows.
sed -i 's/checkpoint: {/&keep: 1, /' job.yaml
rm -r jobs
gc -c job.yaml --apply
line stays "$work/saved/step-00000003" "who writes there is not known, and it changed"
expect "what stays" "2 3 4 6 7" "$(steps)"
sleep 1.1
gc -c job.yaml --apply --older-than 0
expect "what stays" "4 7" "$(steps)"
