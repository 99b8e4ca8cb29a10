#!/bin/bash
# autolaunch submit where there is no Slurm: the script for reading, mistakes with their places, and what a run says of keys
# that are a submission's. tests/e2e/slurm/submit.sh has the rest.
. "$(dirname "$0")/lib.sh"
export SLURM_CONF=$work/nowhere.conf

cat >train.yaml <<'END'
trainer: {command: [/bin/true, "${WORD}", "${SLURM_JOB_ID}"], env: {HF_TOKEN: "${HF_TOKEN}"}}
slurm_config:
  job_name: gpt
  time_limit: 1-00:00:00
  setup: ["ulimit -c 0"]
END
export WORD=first HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789
"$AUTOLAUNCH" submit -c train.yaml slurm_config.nodes=4 --dry-run >job.sh 2>err.log || fail "exit code $?: $(cat err.log)"
grep -qx '#SBATCH --nodes=4' job.sh && grep -qx '#SBATCH --job-name=gpt' job.sh || fail "$(cat job.sh)"
tail -n 1 job.sh | grep -qE "^exec srun --wait=60 .*autolaunch -c $work/runs/.submitted/gpt-.*/spec.yaml$" || fail "$(cat job.sh)"
"$AUTOLAUNCH" lint job.sh >lint.log 2>&1 || fail "lint: $(cat lint.log)"
[ ! -e runs ] || fail "--dry-run left something"
"$AUTOLAUNCH" submit -c train.yaml --dry-run --json >out.json 2>err.log || fail "exit code $?: $(cat err.log)"
grep -q hf_abc out.json job.sh err.log && fail "a secret is shown"
python3 - <<'END' || fail "the stored spec: $(cat out.json)"
import json
d = json.load(open("out.json"))
assert '"first"' in d["spec"] or "- first" in d["spec"], d["spec"]
assert "${SLURM_JOB_ID}" in d["spec"] and "${HF_TOKEN}" in d["spec"], d["spec"]
assert d["job_id"] is None and any("HF_TOKEN holds a secret" in n for n in d["notes"]), d
END

sed "s/gpt/'a\"b'/" train.yaml >quote.yaml
says 65 'quote.yaml:3:13: slurm_config.job_name: holds "' "$AUTOLAUNCH" submit -c quote.yaml --dry-run
says 65 "override slurm_config.dependency=afterr:1: slurm_config.dependency: Slurm knows no dependency \"afterr\"" \
    "$AUTOLAUNCH" submit -c train.yaml slurm_config.dependency=afterr:1 --dry-run
says 65 'slurm_config.setup: its lines take the script' "$AUTOLAUNCH" submit -c train.yaml 'slurm_config.setup=["cat <<E"]' --dry-run
says 65 'trainer.env.DB_PASSWORD: holds a secret' "$AUTOLAUNCH" submit -c train.yaml trainer.env.DB_PASSWORD=Zx81-kRt5-9pQm --dry-run
says 66 'nowhere.yaml' "$AUTOLAUNCH" submit -c nowhere.yaml --dry-run
says 64 'expected slurm, or one of kubernetes, jobset, volcano' "$AUTOLAUNCH" submit -c train.yaml --to podman
says 64 'there is no program to run' "$AUTOLAUNCH" submit -c <(grep -v command train.yaml) --dry-run
says 69 'autolaunch submit --dry-run shows the script without it' "$AUTOLAUNCH" submit -c train.yaml
says 69 'scontrol cannot be started: is this a login node' env PATH=/nowhere "$AUTOLAUNCH" submit -c train.yaml
says 0 'slurm_config.modules, venv, conda and setup are the batch script' env SLURM_JOB_ID= "$AUTOLAUNCH" -c train.yaml trainer.command=/bin/true
# ---- a Slurm that is two scripts: it takes every job ----------------------------------------------------------------
mkdir fake
printf '#!/bin/sh\ncase "$*" in *config*) echo "MaxArraySize = 1001"; echo "KillWait = 30 sec" ;; esac\n' >fake/scontrol
printf '#!/bin/sh\n[ "$1" = --parsable ] && echo 7 || echo "sbatch: Job 7 to start at 2026-11-29T14:00:00" >&2\n' >fake/sbatch
printf '#!/bin/sh\nPATH=%s/fake:$PATH exec "$@"\n' "$work" >fake/with
printf '#!/bin/sh\nexit 1\n' >fake/sacctmgr # the real one asks for slurmdbd for 15 s
chmod +x fake/*
fake=$work/fake/with
mkdir plain && cp train.yaml plain && cd plain && mkdir -p .hidden lib/__pycache__ runs && touch .hidden/x lib/a.py lib/__pycache__/a.pyc runs/log
"$fake" "$AUTOLAUNCH" submit -c train.yaml --snapshot >out.log 2>err.log || failed "exit code $?: $(cat err.log)"
[ "$(cat out.log)" = 7 ] || failed "on stdout: $(cat out.log)"
code=$(echo runs/.submitted/gpt-*/code)
[ "$(cd "$code" && find . -type f | sort | tr '\n' ' ')" = './err.log ./lib/a.py ./out.log ./train.yaml ' ] || failed "the copy: $(find "$code")"
grep -q "workdir: \"*$work/plain/$code" runs/.submitted/gpt-*/spec.yaml || failed "$(cat runs/.submitted/gpt-*/spec.yaml)"
rm -r runs/.submitted && truncate -s 600M weights
says 69 'more than 512 MiB or 50,000 files' "$fake" "$AUTOLAUNCH" submit -c train.yaml --snapshot
[ -z "$(ls runs/.submitted)" ] || failed "left of a job that is none"
says 65 'goes up to 1001, and MaxArraySize' "$fake" "$AUTOLAUNCH" submit -c train.yaml slurm_config.array=0-1001
says 0 'not known: ' "$fake" "$AUTOLAUNCH" submit -c train.yaml
cd .. && rm -r plain

printf '%s\n' 'pipeline: [{name: a, spec: train.yaml}, {name: b, spec: train.yaml, after: any}]' >all.yaml
"$AUTOLAUNCH" submit -c all.yaml --dry-run >all.sh 2>err.log || failed "exit code $?: $(cat err.log)"
grep -qx '# ---- stage b --dependency=afterany:a' all.sh && [ "$(grep -c '^exec srun' all.sh)" = 2 ] || failed "$(cat all.sh)"
says 65 'all.yaml: pipeline: is of several jobs: autolaunch submit -c all.yaml' "$AUTOLAUNCH" -c all.yaml
(cat all.yaml; echo 'restart: {}') >both.yaml
says 65 'both.yaml:2:1: restart: stands beside pipeline' "$AUTOLAUNCH" submit -c both.yaml --dry-run
count_failures
