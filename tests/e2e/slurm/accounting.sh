# Sums over jobs on a real Slurm: slurmdbd on MariaDB, jobs of two accounts, and sreport, which has to agree. GPUs are a fake
# NVML's in the nodes' own /sys. And what a job's end writes into Slurm's comment.
. "$(dirname "$0")/lib.sh"
. "${cluster%/*}/slurmdbd.sh"
start_cluster 2
begin_accounting AccountingStorageTRES=gres/gpu AccountingStoreFlags=job_comment

# amy is no operator.
cat >own_gpus.sh <<'END'
set -e
(cat /etc/passwd && echo amy:x:2001:2001::/:/bin/sh) >/run/passwd && mount --bind /run/passwd /etc/passwd
mount -t tmpfs tmpfs /sys/bus/pci/drivers && mount -t tmpfs tmpfs /sys/bus/pci/devices
for gpu in 0 1 2 3; do
    mkdir -p /sys/bus/pci/drivers/nvidia/0000:1$gpu:00.0 /sys/bus/pci/devices/0000:1$gpu:00.0
    echo 0x10de >/sys/bus/pci/devices/0000:1$gpu:00.0/vendor
    echo 0x030200 >/sys/bus/pci/devices/0000:1$gpu:00.0/class
done
END
all_hosts bash "$work/own_gpus.sh" || skip "the hosts can have no GPUs in /sys"
for gpu in 0 1 2 3; do
    printf 'gpu 0000:1%d:00.0 GPU-%d NVIDIA H100\nmemory 85520809984\nclocks 0\nspeed 1980 2619\n' $gpu $gpu
    [ $gpu = 1 ] && echo 'use 0 0 0' || printf 'use 90 10 1000000000\nprocess %d 1000\n' $gpu
done >machine
cat >train.py <<'END'
import time
import autolaunch

for step in range(40):
    time.sleep(0.1)
    autolaunch.report_step(step, total_steps=40)
END
printf '%s\n' "trainer: {command: [python3, $work/train.py]}" 'resource_management: {ranks_per_node: 1}' \
    'monitoring: {resource_tracking: true, interval_seconds: 1}' >train.yaml
for account in nlp vision; do
    login sacctmgr -i add account "$account" >/dev/null && login sacctmgr -i add user root account="$account" >/dev/null || fail "no account"
done
# gpu_job NAME OPTIONS... <SCRIPT
gpu_job() {
    mkdir -p "$work/$1" && cd "$work/$1" || fail "no folder"
    batch --export="ALL,AUTOLAUNCH_NVML_LIBRARY=$AUTOLAUNCH_BINARY_DIR/tests/fake_nvml.so,FAKE_NVML_MACHINE=$work/machine" "${@:2}"
    cd "$work" || fail "no folder"
}
gpu_job receipt -A nlp -N1 --gpus-per-node=2 <<END
srun autolaunch -c $work/train.yaml
END
first=$job
comment=$(login sacct -nPX -j "$first" -o Comment,AdminComment)
[[ $comment == *"asked 2 GPUs for "*", 1 busy, used "* ]] || fail "the comment is '$comment': $(cat receipt/batch.log)"
contains "the receipt" receipt/batch.log "had nobody's process: ask for 1"
gpu_job own_words -A nlp -N1 --gpus-per-node=1 --comment "my own words" <<END
srun autolaunch -c $work/train.yaml
exit 3
END
echo "comments: $comment / $(login sacct -nPX -j "$job" -o Comment,AdminComment)"
[[ $(login sacct -nPX -j "$job" -o Comment) == "my own words" ]] || fail "the user's comment is gone: $(login sacct -nPX -j "$job" -o Comment,AdminComment)"
# amy's own job, whose AdminComment she may not set.
login sacctmgr -i add user amy account=nlp >/dev/null || fail "no user"
chmod 711 "$work" && mkdir "$work/amy" && chown 2001:2001 "$work/amy" && cd "$work/amy" && chmod 644 "$work"/machine "$work"/train.*
printf '%s\n' '#!/bin/bash' "srun autolaunch -c $work/train.yaml" >"$work/amy.sh" && chmod 755 "$work/amy.sh"
job=$(login setpriv --reuid 2001 --regid 2001 --clear-groups sbatch --parsable -o "$PWD/batch.log" -A nlp -N1 --gpus-per-node=1 \
    --export="ALL,AUTOLAUNCH_NVML_LIBRARY=$AUTOLAUNCH_BINARY_DIR/tests/fake_nvml.so,FAKE_NVML_MACHINE=$work/machine" "$work/amy.sh") || fail "amy cannot submit"
cd "$work" || fail "no folder"
eventually "the end of amy's job" job_ended "$job"
said=$(login sacct -nPX -j "$job" -o Comment,AdminComment)
[[ $said == "asked 1 GPU for "*"|" ]] || fail "amy's comment is '$said': $(cat amy/batch.log)"
gpu_job vision -A vision -N2 --gpus-per-node=2 <<END
sleep 4
END

all_known() { # slurmdbd hears of a job's end a moment later than scontrol tells it
    login autolaunch report --since 1h --by account --csv --rate gpu=2 >usage.csv 2>notes.log || fail "report --since: $(cat notes.log)"
    grep -q '^all,4,4,' usage.csv
}
eventually "four jobs in sacct" all_known
contains "what is missing" notes.log "not known: 1 of 4 jobs have no run directory"
login autolaunch report --since 1h --by account --json >usage.json || fail "report --since --json"
login autolaunch report --since 1h >table.log || fail "report --since"
contains "the table" table.log "amy"
# sreport rounds to whole hours of its time zone: in one where it is past the half, to the end of this one.
zone=UTC0
[ "$(date -u +%-M)" -ge 30 ] || zone=X-5:30
sreport_knows() {
    login env TZ=$zone sreport -nP -t Seconds -T gres/gpu job SizesByAccount FlatView start=now-1hour end=now+1hour >sreport.log 2>&1
    grep -q vision sreport.log && grep -q nlp sreport.log
}
eventually "sreport's own sums" sreport_knows
cat usage.csv sreport.log
python3 - <<'PYTHON' || fail "the sums"
import csv, json
rows = {row["account"]: row for row in csv.DictReader(open("usage.csv"))}
told = {}
for line in open("sreport.log"):
    fields = line.rstrip("\n").split("|")
    told[fields[1]] = told.get(fields[1], 0) + sum(float(f) for f in fields[2:-1] if f and "%" not in f)
for account in ("nlp", "vision"):
    seconds = float(rows[account]["gpu_hours"]) * 3600
    assert seconds > 0 and abs(seconds - told[account]) <= 1, (account, seconds, told)
    assert abs(float(rows[account]["cost"]) - 2 * seconds / 3600) < 0.01
assert (rows["nlp"]["jobs"], rows["nlp"]["completed"]) == ("3", "2"), rows["nlp"]
assert 0.2 < float(rows["nlp"]["gpu_used"]) < 0.9, rows["nlp"]
assert rows["vision"]["gpu_used"] == "" and rows["vision"]["failures"] == "", rows["vision"]
assert rows["all"]["jobs"] == "4"
assert json.load(open("usage.json"))["rows"][1]["gpu_used"] is None
PYTHON
