# `autolaunch lint`, as a person meets it: text, JSON, kinds, exit codes, and that nothing of a script is run.
. "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/lib.sh"
samples=$AUTOLAUNCH_SOURCE_DIR/tests/data/lint

# lints EXPECTED_CODE ARGUMENTS...: leaves what it said in out.log
lints() {
    local expected=$1 code=0
    shift
    "$AUTOLAUNCH" lint "$@" >out.log 2>&1 || code=$?
    expect "exit code of lint $*" "$expected" "$code"
}

lints 1 "$samples/bad/nccl-ib-disable.sh"
contains "the finding" out.log "nccl-ib-disable.sh:3: warning: NCCL_IB_DISABLE=1"
contains "its rule" out.log "[nccl-ib-disable]"
contains "why" out.log "    why: "
contains "the remedy" out.log "    fix: remove it"

mkdir logs
lints 0 "$samples/good/torchrun_c10d.sh" "$samples/good/gres.conf" "$samples/good/train.yaml"
[ -s out.log ] && fail "good files gave findings"
lints 0 "$samples/bad/nccl-debug.sh"
contains "info alone is no failure" out.log ": info: "
lints 1 "$samples/good/mpi.sh" "$samples/bad/gres-file-twice.conf"
lints 1 --kind gres.conf "$samples/bad/gres-file-twice.conf"
contains "the file's kind as told" out.log "[gres-file-twice]"
lints 1 "$samples/bad/spec-error.yaml"
contains "the spec's own errors" out.log 'did you mean "max_restarts"?'
lints 1 --slurm-conf "$samples/slurm.conf" "$samples/bad/beyond-node.sh"
contains "the cluster's nodes" out.log "the largest node has 128"

lints 1 --json "$samples/bad/fixed-port.sh"
python3 -c 'import json, sys
findings = json.load(open("out.log"))["findings"]
assert [(f["rule"], f["line"], f["severity"]) for f in findings] == [("fixed-port", 4, "warning")], findings' ||
    fail "the JSON is not as expected"

# The fix as changes: applied by somebody else, the file is mended.
cat >array.sh <<'END'
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --array=0-79
i=$((SLURM_ARRAY_TASK_ID - 1))
RATES=(1e-3 3e-4 1e-4 3e-5)
WIDTHS=(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
exec srun autolaunch train.py --lr "${RATES[i / 20]}" --width "${WIDTHS[i % 20]}"
END
lints 1 --json array.sh
python3 - <<'END' || fail "the edits do not mend the array"
import json
for finding in json.load(open("out.log"))["findings"]:
    assert finding["fix"] == "--array=1-80, when all are meant", finding
    (edit,) = finding["edits"]
lines = open("array.sh").read().split("\n")
line = lines[edit["line"] - 1]
assert line[edit["column"] - 1:].startswith(edit["old"]), edit
lines[edit["line"] - 1] = line[:edit["column"] - 1] + edit["new"] + line[edit["column"] - 1 + len(edit["old"]):]
open("array.sh", "w").write("\n".join(lines))
END
grep -q '^#SBATCH --array=1-80$' array.sh || fail "the array is $(grep array= array.sh)"
lints 0 array.sh

# Documents, metrics, and what is neither.
printf '# Guide\n\n```bash\nsalloc -N2 --ntasks-per-node=8 --gres=gpu:4\n```\n' >guide.md
lints 1 guide.md
contains "the document's line" out.log "guide.md:4: warning: salloc asks for 8 tasks a node for 4 GPUs"
printf 'groups:\n- rules:\n  - alert: Hot\n    expr: DCGM_FI_DEV_GPU_TEMPERATURE > 85\n' >alerts.yaml
lints 1 alerts.yaml
contains "the name that is meant" out.log "did you mean DCGM_FI_DEV_GPU_TEMP?"
printf 'services: {web: {image: nginx}}\n' >compose.yaml
head -c 2000 /dev/urandom >picture
for file in compose.yaml picture; do
    lints 65 "$file"
    contains "neither, plainly" out.log "$file:1: error: this is neither a script for sbatch or a shell, nor a spec"
done
lints 65 compose.yaml "$samples/bad/fixed-port.sh"
contains "the others are looked at" out.log "[fixed-port]"
lints 1 --kind spec compose.yaml
contains "as told" out.log "[spec-error]"
printf '#!/bin/bash\n#SBATCH --nodes=1 --container-image=a#b\nexec srun autolaunch train.py\n' >pyxis.sh
lints 0 pyxis.sh
contains "plugins are information" out.log "info: --container-image is an option of pyxis"

cat >runs.sh <<'END'
#!/bin/bash
#SBATCH --nodes=1
touch ran-a; x=$(touch ran-b) y=`touch ran-c`
cat <(touch ran-d)
END
lints 0 runs.sh
for trace in ran-?; do [ -e "$trace" ] && fail "lint ran a command of the script"; done
printf '#!/bin/bash\n#SBATCH --nodes=1 --output=later/%%j.out\nsrun ./a\n' >folder.sh
lints 1 folder.sh
contains "a folder that is not there" out.log "folder.sh:2: error: there is no folder later"
mkdir later
lints 0 folder.sh

lints 64
lints 64 --kind yaml runs.sh
contains "the kinds" out.log "gres.conf"
lints 64 --rules runs.sh
lints 64 --markdown runs.sh
lints 64 runs.sh --jsn
contains "options behind the files are options" out.log "did you mean --json?"
lints 66 nowhere.sh
lints 66 .
lints 66 --slurm-conf nowhere.conf runs.sh
head -c 5000000 /dev/zero >large.sh
lints 65 large.sh
lints 0 --rules
contains "the list of rules" out.log "too-many-processes"
lints 0 --help
contains "help" out.log "Usage: autolaunch lint"
echo "lint: all as expected"
