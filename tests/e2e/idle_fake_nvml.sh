# A job on GPUs that are a fake NVML's (the topology's files are made for it): where their time went is said at its end, kept
# as JSON, and told again by autolaunch report.
self=$(readlink -f "$0")
. "$(dirname "$0")/lib.sh"

if [ -z "${IDLE_TEST_INSIDE:-}" ]; then
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "needs root, and a mount namespace of its own"
    IDLE_TEST_INSIDE=yes unshare --mount --propagation private bash "$self"
    exit
fi
for folder in drivers devices; do
    [ -d "/sys/bus/pci/$folder" ] && mount -t tmpfs tmpfs "/sys/bus/pci/$folder" || skip "no /sys/bus/pci/$folder to put GPUs into"
done
export AUTOLAUNCH_NVML_LIBRARY=$AUTOLAUNCH_BINARY_DIR/tests/fake_nvml.so FAKE_NVML_MACHINE=$work/machine
[ -e "$AUTOLAUNCH_NVML_LIBRARY" ] || fail "the target fake_nvml is not built"
printf 'driver 570.86.15\n' >machine
for gpu in 0 1 2; do
    address=0000:1$gpu:00.0
    mkdir -p "/sys/bus/pci/drivers/nvidia/$address" "/sys/bus/pci/devices/$address"
    echo 0x10de >"/sys/bus/pci/devices/$address/vendor"
    echo 0x030200 >"/sys/bus/pci/devices/$address/class"
    printf 'gpu %s GPU-%d NVIDIA H100\nmemory 85520809984\nclocks 0\nspeed 1980 2619\n' "$address" $gpu >>machine
    # The first two work for seven tenths of the time, the third is not used.
    [ $gpu = 2 ] && echo 'use 0 0 0' >>machine || printf 'use 70 10 1000000000\nprocess %d 1000\n' $$ >>machine
done

cat >train.py <<'END'
import time
import autolaunch

def loader():
    for _ in range(30):
        time.sleep(0.06)
        yield 1

for step, _ in enumerate(autolaunch.inputs(loader())):
    time.sleep(0.14)
    autolaunch.report_step(step, loss=2.0 / (step + 1), tokens=1000, total_steps=30)
END
cat >train.yaml <<'END'
trainer: {command: [python3, train.py]}
resource_management: {ranks_per_node: 2}
monitoring: {resource_tracking: true, interval_seconds: 1}
END
# As a scheduler with three GPUs would.
export PBS_JOBID=4711.head PBS_NODEFILE=$work/nodes CUDA_VISIBLE_DEVICES=0,1,2
hostname >nodes
timeout 60 "$AUTOLAUNCH" -c train.yaml >out.log 2>&1 || fail "the job: $(cat out.log)"
contains "the receipt" out.log "gpus: asked 3 GPUs for "
contains "busy ones" out.log ", 2 busy · used "
contains "what to change" out.log "change: 1 GPU on $(hostname) had nobody's process: ask for 2, or start a rank on each"
python3 - <<'PYTHON' || fail "gpu-time.json: $(cat runs/latest/gpu-time.json)"
import json

job = json.load(open("runs/latest/gpu-time.json"))
assert job["asked"] == 3 and job["busy"] == 2 and job["measured"] == 3, job
for gpu in job["gpus"]:
    assert abs(sum(gpu["seconds"].values()) - gpu["held_seconds"]) < 0.01, gpu
    steps = sum(gpu["seconds"][use] for use in ("used", "input", "unexplained", "nobody"))
    if not gpu["ranks"]:
        assert gpu["seconds"]["nobody"] > 0.99 * gpu["held_seconds"], gpu
    else:  # it idled for 30 %, and the rank has waited for about as long
        assert 0.6 < gpu["seconds"]["used"] / steps < 0.75, gpu
        assert 0.2 < gpu["seconds"]["input"] / steps < 0.31, gpu
PYTHON
run=runs/latest
"$AUTOLAUNCH" report "$run" >report.log 2>&1 || fail "report: $(cat report.log)"
contains "the same" report.log "  gpus: asked 3 GPUs for "
"$AUTOLAUNCH" report "$run" --html page.html >/dev/null || fail "no page"
contains "the picture" page.html "How busy, over time"
"$AUTOLAUNCH" report "$run" --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["runs"][0]["gpu_time"]["asked"] == 3' || fail "report --json"

# Without GPUs the file says so, and the screen nothing.
unset AUTOLAUNCH_NVML_LIBRARY
rm -r /sys/bus/pci/drivers/nvidia runs
CUDA_VISIBLE_DEVICES= timeout 60 "$AUTOLAUNCH" -n 1 true >out.log 2>&1 || fail "the job without GPUs: $(cat out.log)"
grep -q '^gpus:' out.log && fail "a receipt without GPUs: $(cat out.log)"
python3 -c 'import json; job = json.load(open("runs/latest/gpu-time.json")); assert job["asked"] == 0 and job["receipt"] == []' ||
    fail "gpu-time.json without GPUs"
