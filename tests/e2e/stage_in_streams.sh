#!/bin/bash
# Data that comes while ranks run (storage.stage_in, start: streaming): files are there one by one, in the order of the listing and
# whole; what goes wrong meanwhile ends the job with its own code; a restart, a kill and the end of a job leave what has come.
# What is to happen before a file comes is no matter of time: the file is held until then.
. "$(dirname "$0")/lib.sh"
scratch=$work/scratch
stage=$scratch/autolaunch-$(id -u)/stage
python=/usr/bin/python3
[ -x $python ] || skip "no $python"
$python -c 'import fcntl; fcntl.fcntl(open("lease", "w"), fcntl.F_SETLEASE, fcntl.F_WRLCK)' 2>lease.out || skip "files of $work cannot be held: $(tail -1 lease.out)"
mkdir -p data/sub "$scratch"
for i in 1 2 3 4 5; do head -c 800000 /dev/urandom >data/sub/$i; done
: >data/empty
echo one >"data/a b"
ln -s sub/2 data/link
cat >train.yaml <<END
trainer: {command: [bash, $work/rank.sh], mpi: none}
storage:
  scratch: $scratch
  throttle: 50MB
  stage_in:
    - {from: data, as: tokens, start: streaming}
resource_management: {ranks_per_node: 2}
monitoring: {log_path: runs, resource_tracking: false}
END
# hold NUMBER...: data/sub/NUMBER is staged no further than to its opening, until let_go NUMBER, or change_and_let_go.
hold() {
    [ -z "${holder:-}" ] || { kill "$holder" && wait "$holder"; } 2>/dev/null
    rm -rf let && mkdir let
    $python "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/held_files.py" let "${@/#/data/sub/}" 2>holder.log &
    holder=$!
    eventually "files that are held" test -e let/held
    rm holder.log
}
let_go() { touch "${@/#/let/}"; }
change_and_let_go() { echo more >let/.more && mv let/.more "let/$1"; }
# What ranks see now, and what is whole of the numbers, seen or not.
view() { (cd "$stage"/copies/of-*/tokens/tree 2>/dev/null && find . -type f -printf '%P\n' | sort | xargs); }
sees() { [ "$(view)" = "$1" ]; }
are_whole() {
    local number
    for number; do [[ $(stat -c %a "$stage"/parts/*/tree/sub/"$number" 2>/dev/null) = 4* ]] || return; done
}
# A rank that takes the files in the order of the listing: each is whole as soon as it is there, and no later one was before it.
cat >rank.sh <<'END'
if [ "$RANK" = 1 ] && [ -n "$PYTHON" ]; then
    $PYTHON - <<'PY' || exit 8
import autolaunch, os, time
def sleep(seconds, real=time.sleep):
    open(os.path.join(os.environ["OUT"], "waits"), "w").close()
    real(seconds)
time.sleep = sleep
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
done || exit
cmp link sub/2 || exit 7
while [ "$(stat -c %a .)" != 555 ]; do sleep 0.01; done # until it counts for the next job
END
run() { timeout 60 "$AUTOLAUNCH" run -c train.yaml --log-dir "$@"; }
at() { grep -n "\"event\":\"$2\"" "$1/events.jsonl" | head -1 | cut -d: -f1; }

"$AUTOLAUNCH" plan -c train.yaml >plan.log 2>&1 || fail "no plan"
contains "the plan" plan.log "to be copied · ranks start before it is whole"
"$AUTOLAUNCH" plan --json -c train.yaml | grep -q '"start": *"streaming"' || fail "plan --json"
# The others are whole, and none of them is there before the first; and so with the third.
export PYTHON=$python OUT=$work
hold 1 3
run one >one.log 2>&1 &
job=$!
both_run() { [ -e began.0 ] && [ -e waits ]; }
eventually "ranks that wait for data" both_run
eventually "the files behind" are_whole 2 4 5
eventually "what comes before the first that is held" sees "a b empty"
let_go 1
eventually "what comes between those that are held" sees "a b empty sub/1 sub/2"
let_go 3
wait $job || fail "the first job"
contains "that they start early" one.log "streams   tokens: 4.0 MB in 7 files come while ranks run"
contains "that all is there" one.log "staged    tokens: 4.0 MB in 7 files in "
contains "the event" one/events.jsonl '"event":"data_comes","name":"tokens"'
for rank in 0 1; do
    expect "the order on rank $rank" "a b empty sub/1 sub/2 sub/3 sub/4 sub/5" "$(xargs <seen.$rank)"
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
anew() { rm -rf "$scratch"/* seen.* began.* "$@"; }
waits='cd "$AUTOLAUNCH_DATA_TOKENS"; trap "sleep 0.1; cp ../../failed '$work'/told; exit 1" TERM; touch '$work'/runs.now; for i in $(seq 600); do sleep 0.05; done'
breaks() { # CODE TEXT NUMBER COMMAND...: once ranks run and all before that file is there, which is held
    local code=0 number=$3
    anew runs.now told broken
    hold "$number"
    run broken restart.max_restarts=2 -- sh -c "$waits" >broken.log 2>&1 &
    local job=$!
    eventually "ranks that run" test -e runs.now
    eventually "what comes before sub/$number" has_come $((number - 1))
    "${@:4}" "$number"
    wait $job || code=$?
    expect "the code after $4" "$1" "$code"
    contains "the reason after $4" broken.log "✗ data that ranks run on does not come: storage."
    contains "the reason after $4" broken.log "$2"
    grep -q "✗ rank" broken.log && fail "a rank is blamed for it: $(cat broken.log)"
    contains "what ranks are told after $4" told "$2"
    expect "processes after $4" "" "$(pgrep -f "$work/runs.now" | xargs)"
}
has_come() { [ -e "$(echo "$stage"/copies/of-*/tokens/tree/sub/"$1")" ]; }
breaks 66 "data/sub/4 was changed while it was staged" 4 change_and_let_go
expect "what is left of it" "" "$(ls -A "$stage/parts" "$stage/data" | grep -v : | xargs)"
(cd data && find . -type f ! -name SUMS -print0 | xargs -0 sha256sum | sed '/sub.4/s/^../00/' >SUMS)
sed -i 's/as: tokens/&, verify: SUMS/' train.yaml
breaks 65 "data/sub/4 has sha256:" 4 let_go
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
breaks 69 "autolaunch-stager has ended" 4 stager_dies
disk_fills() { # others write there, too
    dd if=/dev/zero of="$scratch/others" bs=64k 2>/dev/null
    let_go "$1"
}
if mount -t tmpfs -o size=12m full "$scratch" 2>/dev/null; then
    mounted=$scratch
    breaks 73 "No space left on device" 5 disk_fills
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
[ "\$TORCHELASTIC_RESTART_COUNT" = 0 ] || { touch $work/let/5; exec bash $work/rank.sh; }
cd "\$AUTOLAUNCH_DATA_TOKENS"; until [ -e sub/1 ]; do sleep 0.01; done; exit 3
END
hold 5
run three restart.max_restarts=1 resource_management.ranks_per_node=1 -- bash "$work/first.sh" >three.log 2>&1 || fail "a restart in mid-stream"
for event in data_comes data_staged; do expect "$event over two generations" 1 "$(grep -c "\"event\":\"$event\"" three/events.jsonl)"; done
expect "what the second has seen" 8 "$(wc -l <seen.0)"

# A rank that waits for data is no hang, whatever it is told of hangs; steps are reported by then.
waits_long() {
    anew four
    hold 5
    cat >steps.py <<'END'
import autolaunch, os, time
def steps(first, last):
    for step in range(first, last):
        time.sleep(0.01)
        autolaunch.report_step(step, total_steps=60)
steps(0, 40)
def sleep(seconds, real=time.sleep):
    real(seconds)
    sleep.slept += seconds
    if sleep.slept > 2.5:
        open(os.path.join(os.environ["OUT"], "let/5"), "w").close()
sleep.slept, time.sleep = 0, sleep
path, size = autolaunch.staged_files("tokens")[-1]
assert autolaunch.await_file(path) > 2.5
time.sleep = sleep.__defaults__[0]
steps(40, 60)
END
    run four restart.max_restarts=1 restart.hang_after=1s resource_management.ranks_per_node=1 -- $python "$work/steps.py" >four.log 2>&1 ||
        fail "a wait for data"
    grep -q "stands still" four.log && fail "a wait for data is called a hang: $(cat four.log)"
}
waits_long

# Killed, ended, a file of a listing that is not waited for: the next job goes on with what has come.
until_4='cd "$AUTOLAUNCH_DATA_TOKENS"; until [ -e sub/4 ]; do sleep 0.01; done'
goes_on() {
    local read_bytes
    let_go 5
    run next -- sh -c 'cd "$AUTOLAUNCH_DATA_TOKENS"; until [ "$(stat -c %a .)" = 555 ]; do sleep 0.01; done; cmp sub/5 '"$work/data/sub/5" >next.log 2>&1 ||
        fail "the job after $1: $(cat next.log)"
    read_bytes=$(sed -n 's/.*"name":"tokens".*"read_bytes":\([0-9]*\).*/\1/p' next/events.jsonl)
    expect "what the job after $1 has read" 800000 "$read_bytes"
    expect "copies after $1" "" "$(ls -A "$stage/copies")"
}
anew next
hold 5
run ends -- sh -c "$until_4" >ends.log 2>&1 || fail "a job that needs no more"
expect "a tree of the job that has ended" "" "$(ls -A "$stage/data")"
goes_on "a job that has ended"
anew next killed runs.now
hold 5
timeout 60 "$AUTOLAUNCH" run -c train.yaml --log-dir killed -- sh -c "$until_4; touch $work/runs.now; sleep 60" >killed.log 2>&1 &
eventually "what comes before the file that is held" test -e runs.now
job=$!
for pid in $(below "$job"); do [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != autolaunch ] || kill -KILL "$pid"; done
{ wait "$job"; } 2>/dev/null
is_over() { [ -z "$(pgrep -f "$work/runs.now")" ]; }
eventually "the end of all that was killed" is_over
goes_on "a kill"
count_failures
