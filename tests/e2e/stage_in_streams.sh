#!/bin/bash
# Data that comes while ranks run (storage.stage_in, start: streaming): files are there one by one, in the order of the listing and
# whole; what goes wrong meanwhile ends the job with its own code; a restart, a kill and the end of a job leave what has come.
. "$(dirname "$0")/lib.sh"
scratch=$work/scratch
stage=$scratch/autolaunch-$(id -u)/stage
python=/usr/bin/python3
mkdir -p data/sub "$scratch"
for i in 1 2 3 4 5; do head -c 800000 /dev/urandom >data/sub/$i; done
: >data/empty
echo one >"data/a b"
ln -s sub/2 data/link
cat >train.yaml <<END
trainer: {command: [bash, $work/rank.sh], mpi: none}
storage:
  scratch: $scratch
  throttle: 2MB
  stage_in:
    - {from: data, as: tokens, start: streaming}
resource_management: {ranks_per_node: 2}
monitoring: {log_path: runs, resource_tracking: false}
END
# A rank that takes the files in the order of the listing: each is whole as soon as it is there, and no later one was before it.
cat >rank.sh <<'END'
if [ "$RANK" = 1 ] && [ -n "$PYTHON" ]; then
    $PYTHON - <<'PY' || exit 8
import autolaunch, os
files = autolaunch.staged_files("tokens")
assert [size for _, size in files] == [4, 0] + 5 * [800000], files
waited = [autolaunch.await_file(path, patience=30) for path, _ in files]
assert max(waited) > 0 and autolaunch.await_file(os.path.join(autolaunch.staged_data("tokens"), "link")) == 0
try:
    autolaunch.await_file(files[0][0] + "x")
except ValueError as error:
    assert "none of that name comes" in str(error), error
PY
fi
cd "$AUTOLAUNCH_DATA_TOKENS" || exit 4
[ "$(head -1 ../listing)" = "autolaunch stream 1 folder 7 4000004" ] || exit 5
date +%s%N >"$OLDPWD/began.$RANK"
sed 1d ../listing | while read -r bytes name; do
    name=$(printf %b "${name//%/\\x}")
    while [ ! -e "$name" ]; do sleep 0.01; done
    cmp "$name" "$OLDPWD/data/$name" || exit 6
    echo "$name" >>"$OLDPWD/seen.$RANK"
    find . -type f | wc -l >>"$OLDPWD/there.$RANK"
done || exit
cmp link sub/2 || exit 7
while [ "$(stat -c %a .)" != 555 ]; do sleep 0.01; done # until it counts for the next job
END
run() { timeout 60 "$AUTOLAUNCH" run -c train.yaml --log-dir "$@"; }
at() { grep -n "\"event\":\"$2\"" "$1/events.jsonl" | head -1 | cut -d: -f1; }

"$AUTOLAUNCH" plan -c train.yaml >plan.log 2>&1 || fail "no plan"
contains "the plan" plan.log "to be copied · ranks start before it is whole"
"$AUTOLAUNCH" plan --json -c train.yaml | grep -q '"start": *"streaming"' || fail "plan --json"
[ -x $python ] && export PYTHON=$python
run one >one.log 2>&1 || fail "the first job"
contains "that they start early" one.log "streams   tokens: 4.0 MB in 7 files come while ranks run"
contains "that all is there" one.log "staged    tokens: 4.0 MB in 7 files in "
contains "the event" one/events.jsonl '"event":"data_comes","name":"tokens"'
for rank in 0 1; do
    expect "the order on rank $rank" "a b empty sub/1 sub/2 sub/3 sub/4 sub/5" "$(xargs <seen.$rank)"
    [ "$rank" = 1 ] || [ "$(sed -n 3p there.$rank)" -lt 7 ] || fail "all was there at once: $(xargs <there.$rank)"
done
order=$(at one data_comes)$'\n'$(at one rank_started)$'\n'$(at one data_staged)
expect "the order of events" "$order" "$(sort -n <<<"$order")"
expect "what is left beside the tree" "" "$(ls -A "$stage/copies" "$stage/parts" "$stage/gone" | grep -v : | xargs)"
expect "what the tree has" "manifest marks tree" "$(ls "$stage/data/"* | xargs)"

# The next job starts with all of it; what the user has set stays.
run two -- sh -c 'test -z "$AUTOLAUNCH_STREAMS" && cd "$AUTOLAUNCH_DATA_TOKENS" && cmp sub/5 '"$work/data/sub/5" >two.log 2>&1 || fail "the second job"
contains "the second job" two.log "on this node already"

# At the spec's line.
wrong() {
    sed "$1" train.yaml >wrong.yaml
    says 65 "$2" "$AUTOLAUNCH" validate wrong.yaml
}
wrong 's/start: streaming/start: now/' 'wrong.yaml:6:39: storage.stage_in[0].start: expected all (ranks start once all of it is there) or streaming'
wrong 's/from: data/from: data.tar, unpack: true/' 'storage.stage_in[0].start: is streaming, and what an archive holds is known once all of it is unpacked'

# What goes wrong while ranks run: the code that it has without them, and the reason; nobody is left.
anew() { rm -rf "$scratch"/* seen.* there.* began.* "$@"; }
waits='cd "$AUTOLAUNCH_DATA_TOKENS"; trap "sleep 0.1; cp ../../failed '$work'/told; exit 1" TERM; touch '$work'/runs.now; for i in $(seq 600); do sleep 0.05; done'
breaks() { # CODE TEXT COMMAND...: while the job runs
    local code=0
    anew runs.now told broken
    run broken restart.max_restarts=2 -- sh -c "$waits" >broken.log 2>&1 &
    local job=$!
    eventually "ranks that run" test -e runs.now
    "${@:3}"
    wait $job || code=$?
    expect "the code after $3" "$1" "$code"
    contains "the reason after $3" broken.log "✗ data that ranks run on does not come: storage."
    contains "the reason after $3" broken.log "$2"
    grep -q "✗ rank" broken.log && fail "a rank is blamed for it: $(cat broken.log)"
    contains "what ranks are told after $3" told "$2"
    expect "processes after $3" "" "$(pgrep -f "$work/runs.now" | xargs)"
}
has_come() { [ -e "$(echo "$stage"/copies/of-*/tokens/tree/sub/1)" ]; }
changes() {
    eventually "a part of it" has_come
    echo more >>data/sub/4
}
breaks 66 "data/sub/4 was changed while it was staged" changes
expect "what is left of it" "" "$(ls -A "$stage/parts" "$stage/data" | grep -v : | xargs)"
(cd data && find . -type f ! -name SUMS -print0 | xargs -0 sha256sum | sed '/sub.4/s/^../00/' >SUMS)
sed -i 's/as: tokens/&, verify: SUMS/' train.yaml
breaks 65 "data/sub/4 has sha256:" true
below() { # PID: its children, and theirs
    local child
    for child in $(pgrep -P "$1"); do echo "$child" && below "$child"; done
}
stager_dies() {
    local pid
    for pid in $(below "$job"); do [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != autolaunch-stag ] || kill -KILL "$pid"; done
}
sed -i '/sub.4/d' data/SUMS
(cd data && sha256sum ./sub/4 >>SUMS)
breaks 69 "autolaunch-stager has ended" stager_dies
disk_fills() { # others write there, too
    eventually "a part of it" has_come
    dd if=/dev/zero of="$scratch/others" bs=64k 2>/dev/null
}
if mount -t tmpfs -o size=12m full "$scratch" 2>/dev/null; then
    mounted=$scratch
    breaks 73 "No space left on device" disk_fills
    expect "what is left of it" "" "$(ls -A "$stage/parts" "$stage/data" | grep -v : | xargs)"
    umount "$scratch" && mounted=
else
    echo "skip: no file system can be mounted here, so none is filled while data comes"
fi

# A restart goes on with what comes: it is staged once.
unset PYTHON
anew three
sed -i 's/folder 7 4000004/folder 8 /; s/ = "autolaunch stream 1 folder 8 "/ != ""/' rank.sh
cat >first.sh <<END
[ "\$TORCHELASTIC_RESTART_COUNT" = 0 ] || exec bash $work/rank.sh
cd "\$AUTOLAUNCH_DATA_TOKENS"; until [ -e sub/1 ]; do sleep 0.01; done; exit 3
END
run three restart.max_restarts=1 resource_management.ranks_per_node=1 -- bash "$work/first.sh" >three.log 2>&1 || fail "a restart in mid-stream"
for event in data_comes data_staged; do expect "$event over two generations" 1 "$(grep -c "\"event\":\"$event\"" three/events.jsonl)"; done
expect "what the second has seen" 8 "$(wc -l <seen.0)"

# A rank that waits for data is no hang, whatever it is told of hangs; steps are reported by then.
waits_long() {
    anew four
    cat >steps.py <<'END'
import autolaunch, time
def steps(first, last):
    for step in range(first, last):
        time.sleep(0.01)
        autolaunch.report_step(step, total_steps=60)
steps(0, 40)
path, size = autolaunch.staged_files("tokens")[-1]
assert autolaunch.await_file(path) > 2.5
steps(40, 60)
END
    run four storage.throttle=1MB restart.max_restarts=1 restart.hang_after=1s resource_management.ranks_per_node=1 -- $python "$work/steps.py" >four.log 2>&1 ||
        fail "a wait for data"
    grep -q "stands still" four.log && fail "a wait for data is called a hang: $(cat four.log)"
}
[ ! -x $python ] || waits_long

# Killed, ended, a file of a listing that is not waited for: the next job goes on with what has come.
goes_on() {
    local read_bytes
    run next storage.throttle=1GB -- sh -c 'cd "$AUTOLAUNCH_DATA_TOKENS"; until [ "$(stat -c %a .)" = 555 ]; do sleep 0.01; done; cmp sub/5 '"$work/data/sub/5" >next.log 2>&1 ||
        fail "the job after $1: $(cat next.log)"
    [ -e "$stage/data" ] && read_bytes=$(sed -n 's/.*"name":"tokens".*"read_bytes":\([0-9]*\).*/\1/p' next/events.jsonl)
    [ "${read_bytes:-4000004}" -lt 3300000 ] || fail "the job after $1 has read all anew: ${read_bytes:-}"
    expect "copies after $1" "" "$(ls -A "$stage/copies")"
}
anew next
run ends -- sh -c 'cd "$AUTOLAUNCH_DATA_TOKENS"; until [ -e sub/1 ]; do sleep 0.01; done' >ends.log 2>&1 || fail "a job that needs no more"
expect "a tree of the job that has ended" "" "$(ls -A "$stage/data")"
goes_on "a job that has ended"
anew next killed runs.now
timeout 60 "$AUTOLAUNCH" run -c train.yaml --log-dir killed -- sh -c 'cd "$AUTOLAUNCH_DATA_TOKENS"; until [ -e sub/1 ]; do sleep 0.01; done; touch '"$work/runs.now"'; sleep 60' >killed.log 2>&1 &
eventually "the first file" test -e runs.now
job=$!
for pid in $(below "$job"); do [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != autolaunch ] || kill -KILL "$pid"; done
{ wait "$job"; } 2>/dev/null
is_over() { [ -z "$(pgrep -f "$work/runs.now")" ]; }
eventually "the end of all that was killed" is_over
goes_on "a kill"
count_failures
