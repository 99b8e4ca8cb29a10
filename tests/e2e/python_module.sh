#!/bin/bash
# A Python rank tells of its steps by `import autolaunch`: a hang of it is named with Python's own stacks and ended, an evaluation is
# none, a stop is heard, and whatever of that name is the user's is imported instead.
. "$(dirname "$0")/lib.sh"
unset PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHONHOME
command -v python3 >/dev/null || skip "python3 is not installed"

cat >train.py <<'END'
import os, signal, sys, time
import autolaunch

sys.path.append(sys.argv[1] + "/torch/distributed")
import distributed_c10d

work, mode = sys.argv[1:]
rank = int(os.environ["RANK"])
first = os.environ["AUTOLAUNCH_GENERATION"] == "0"


def stuck_in_the_loader():
    while not os.path.exists(work + "/go"):
        time.sleep(60)


before = {n: signal.getsignal(n) for n in range(1, 32)}
assert autolaunch.connected()
assert before == {n: signal.getsignal(n) for n in range(1, 32)}, "a signal was taken"
if os.fork() == 0:
    autolaunch.report_step(999)  # a child is not the rank
    assert not autolaunch.connected()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
for step in range(8 if mode == "hang" else 10_000):
    time.sleep(0.02)
    if step == 2:
        with autolaunch.phase("evaluation"):
            with autolaunch.phase("of one part"):
                pass
            time.sleep(2.5)
    autolaunch.report_step(step, loss=float("nan") if step == 1 else 1.5, tokens=100, total_steps=8)
    if autolaunch.stop_requested():
        left = autolaunch.stop_deadline() - time.monotonic()
        assert 0 < left < 60 and autolaunch.stop_reason(), left
        autolaunch.report_checkpoint(step, work + "/saved", stall_seconds=0.1, save_seconds=0.2)
        autolaunch.report_message("stopped: " + autolaunch.stop_reason() + " \ud800" + "x" * 100_000)
        break
    if mode == "hang" and first and step == 6:
        stuck_in_the_loader() if rank == 1 else distributed_c10d.all_reduce()
END
# As PyTorch's collectives are seen from outside: a rank that waits in one is no culprit.
mkdir -p torch/distributed
printf 'import time\n\n\ndef all_reduce():\n    while True:\n        time.sleep(0.5)\n' >torch/distributed/distributed_c10d.py
printf 'trainer: {command: [x]}\nrestart: {max_restarts: 1, hang_after: 2s}\n' >ended.yaml
"$AUTOLAUNCH" -n 2 -c ended.yaml --log-dir hang -- python3 train.py "$work" hang >hang.log 2>&1 </dev/null &
hang=$!
"$AUTOLAUNCH" -n 2 --log-dir stop -- python3 train.py "$work" stop >stop.log 2>&1 </dev/null &
stop=$!

# What the user has of that name comes first, wherever it is.
python3 -m venv --without-pip venv >venv.log 2>&1 || skip "python3 has no venv module"
site=$(venv/bin/python -c 'import site; print(site.getsitepackages()[0])')
mkdir -p beside theirs empty/autolaunch packages/autolaunch
echo 'name = "beside the script"' >beside/autolaunch.py
echo 'import autolaunch; print(autolaunch.name)' >beside/main.py
echo 'name = "on their path"' >theirs/autolaunch.py
echo 'name = "a package"; from autolaunch import part' >packages/autolaunch/__init__.py
echo 'other = 3' >packages/autolaunch/part.py
cat >check.sh <<'END'
ask='import autolaunch as a; print(getattr(a, "name", "ours"), len(getattr(a, "__all__", [])) > 5)'
echo "plain: $(python3 -c "$ask")"
echo "venv: $(venv/bin/python -c "$ask")"
echo "no site: $(python3 -S -c "$ask")"
echo "beside: $(python3 beside/main.py)"
cp -r packages/autolaunch "$SITE"
echo "installed: $(venv/bin/python -c "$ask; import autolaunch.part; print(a.part.other)" | tr '\n' ' ')"
rm -r "$SITE/autolaunch"
echo "installed, to edit: $(venv/bin/python -c "
import sys, importlib.machinery as m
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return m.PathFinder.find_spec(name, ['packages']) if name == 'autolaunch' else None
sys.meta_path.append(Editable)
$ask")"
echo "a folder of that name: $(cd empty && python3 -c "$ask")"
for flag in -I -E; do echo "$flag: $(python3 $flag -c "$ask" 2>&1 | tail -1)"; done
echo "path: $PYTHONPATH"
END
"$AUTOLAUNCH" -n 1 --no-prefix sh -c 'SITE=$0 sh check.sh' "$site" >own.log 2>&1 </dev/null || fail "the imports"
for line in "plain: ours True" "venv: ours True" "no site: ours True" "beside: beside the script" "installed: a package False 3" \
    "installed, to edit: a package False" "a folder of that name: ours True" "-I: ModuleNotFoundError" "-E: ModuleNotFoundError"; do
    contains "what is imported" own.log "$line"
done
ours=$(sed -n 's/^path: //p' own.log)
[ -r "$ours/autolaunch/__init__.py" ] || fail "PYTHONPATH: $ours"
PYTHONPATH="$work/theirs:" "$AUTOLAUNCH" -n 1 --no-prefix sh -c 'echo "path: $PYTHONPATH"; exec python3 -c "import autolaunch as a; print(a.name)"' \
    >theirs.log 2>&1 </dev/null || fail "the user's own path"
contains "PYTHONPATH behind the user's" theirs.log "path: $work/theirs::$ours"
contains "the user's own path" theirs.log "on their path"

# Ranks that are forked from one interpreter, which has imported it.
printf 'import json\nimport autolaunch\nassert autolaunch.connected()\nautolaunch.report_step(3)\n' >warm.py
for modules in auto json,autolaunch; do
    "$AUTOLAUNCH" -n 2 --preload $modules --log-dir warm-$modules -- /usr/bin/python3 warm.py >warm.log 2>&1 </dev/null || fail "--preload $modules"
    expect "ranks that told of a step, --preload $modules" 2 "$(grep -c '"event":"step"' warm-$modules/events.jsonl)"
    contains "ranks are forked, --preload $modules" warm-$modules/events.jsonl '"event":"python_preloaded"'
    grep -q warning: warm.log && fail "a rank was not forked: $(cat warm.log)"
done

eventually "steps are told" grep -qs '"event":"step","rank":1,"step":20,' stop/events.jsonl
kill -TERM $stop
wait $stop
expect "exit code of a stop that saved" 75 $?
for rank in 0 1; do
    contains "a checkpoint" stop/events.jsonl "\"event\":\"checkpoint\",\"rank\":$rank,"
    contains "a message" stop/events.jsonl "\"event\":\"message\",\"rank\":$rank,\"text\":\"stopped: the job is to stop ?x"
done
grep -q '"signal"' stop/events.jsonl && fail "a rank got a signal: $(grep '"signal"' stop/events.jsonl)"

wait $hang
expect "exit code of a job that is restarted after a hang" 0 $?
contains "a loss that is no number" hang/events.jsonl '"rank":0,"step":1,"total_steps":8,"tokens":100,"loss":null'
contains "the last step" hang/events.jsonl '"generation":1,"event":"step","rank":1,"step":7,'
grep -q '"step":999' hang/events.jsonl && fail "a child reported a step"
contains "who is named" hang.log "rank 1 (pid $(sed -n 's/.*"event":"rank_started".*"rank":1.*"pid":\([0-9]*\).*/\1/p' hang/events.jsonl | head -1)) sleeps"
contains "where" hang.log ") sleeps, in stuck_in_the_loader (train.py:"
contains "who waits for it" hang.log "rank 0 waits in all_reduce, called in <module> (train.py:"
contains "the one who holds it up" hang/events.jsonl '"event":"standstill","what":"no step for'
grep -q '"event":"standstill".*"ranks":\[1\]' hang/events.jsonl || fail "who is named: $(grep standstill hang/events.jsonl)"
expect "standstills" 1 "$(grep -c '"event":"standstill"' hang/events.jsonl)"
for text in "Python, by faulthandler:" "in stuck_in_the_loader" "most recent call first"; do
    contains "Python's stacks" hang/generation-0/stacks-rank-1.txt "$text"
done
nothing_left
