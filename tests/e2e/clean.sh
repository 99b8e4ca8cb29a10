#!/bin/bash
# What a job leaves behind: the certificate at its end, and, where agent, keeper and guardian were all killed, the next start
# and `autolaunch clean`, which touch nothing of a job that lives.
. "$(dirname "$0")/lib.sh"
for_all_users

"$AUTOLAUNCH" --nproc-per-node 2 --log-dir run "$misbehave" daemon,exit:0 >out.log 2>err.log </dev/null || fail "the job"
cp run/exit.json out.log
json 'd["clean"] and d["by"] == "agent" and d["exit_code"] == 0 and d["left"] == []'
json '{g["kind"]: g["count"] for g in d["gone"]} == {"process": 2, "folder": 1, "port": 1}'

processes() { ranks_left | wc -l; }
has() { [ "$(processes)" -ge "$1" ]; }
is_idle() { [ "$(processes)" -eq "$1" ]; }
below() {
    ps -e -o pid=,ppid= | awk -v root="$1" '{ parent[$1] = $2 }
        END { for (pid in parent) { at = pid; while (at in parent && at != root) at = parent[at]; if (at == root) print pid } }'
}
run_as=() # by whom
# orphan FOLDER: a job of which daemons stay, for all three of autolaunch's are stopped first and then killed together.
orphan() {
    local before own pid
    before=$(processes)
    "${run_as[@]}" "$AUTOLAUNCH" --nproc-per-node 1 --log-dir "$1" "$misbehave" daemon,stubborn-child,hang >out.log 2>err.log </dev/null &
    job=$!
    eventually "the daemons of $1" has $((before + 3))
    own=$(for pid in $(below "$job"); do [ "$(readlink "/proc/$pid/exe")" = "$misbehave" ] || echo "$pid"; done)
    kill -STOP $own
    kill -9 $own
    wait "$job" 2>/dev/null
    has $((before + 1)) || fail "nothing was left of $1: the test shows nothing"
}
# One that lives, all the time.
"$AUTOLAUNCH" --nproc-per-node 1 --log-dir alive "$misbehave" daemon,hang >/dev/null 2>&1 </dev/null &
alive=$!
eventually "the job that lives" has 2
lives=$(processes)

orphan dead
"$AUTOLAUNCH" clean --dry-run >out.log || fail "dry run: exit code $?"
contains "dry run" out.log "would end process"
"$AUTOLAUNCH" clean --job none --json >out.log || fail "another job: exit code $?"
json 'd["jobs"] == []'
has $((lives + 1)) || fail "a dry run, or one for another job, has ended processes"
id=$(python3 -c 'import json; print(json.load(open("dead/plan.json"))["run_id"])')
"$AUTOLAUNCH" clean --job "$id" --json >out.log || fail "clean: exit code $?"
json 'len(d["jobs"]) == 1 and d["jobs"][0]["left"] == [] and d["drain"] is None'
eventually "the end of the dead job's processes" is_idle "$lives"
cp dead/exit.json out.log
json 'd["by"] == "clean" and d["clean"] and d["exit_code"] is None'

orphan later
"$AUTOLAUNCH" --nproc-per-node 1 --log-dir next true >out.log 2>err.log </dev/null || fail "the next job"
contains "the next start" err.log "whose autolaunch was killed"
eventually "the end of the dead job's processes by the next start" is_idle "$lives"
cp later/exit.json out.log
json 'd["by"] == "the next start" and d["clean"]'

"$AUTOLAUNCH" clean >out.log || fail "clean: exit code $?"
! grep -qE "/(dead|later)\)" out.log || fail "a job that was cleaned is there again"
expect "processes of the job that lives" "$lives" "$(processes)"

# What does not go is named, and the node drained where that is asked for: here a folder in which something is mounted.
folder=$XDG_RUNTIME_DIR/autolaunch-$(id -u)-dead02
mkdir -m 700 "$folder" "$folder/held" tools
printf '{"run_id":"4711","run_dir":"%s","node":"n","node_rank":0}' "$work/run" >"$folder/job"
printf '#!/bin/sh\necho "$@" >>%s\n' "$work/scontrol.txt" >tools/scontrol
chmod +x tools/scontrol
AUTOLAUNCH_SOCKET=$folder/s "$AUTOLAUNCH" clean --job 4711 --json >out.log # it is of that job itself: no fault of the node
expect "exit code where clean itself stays" 78 "$?"
json 'd["jobs"][0]["left"][0]["kind"] == "process" and d["drain"] is None'
if mount -t tmpfs none "$folder/held" 2>/dev/null; then
    mounted=$folder/held
    "$AUTOLAUNCH" clean --job 4711 >out.log
    expect "exit code with something left" 78 "$?"
    contains "the command" out.log "this node should be drained: scontrol update NodeName="
    PATH=$work/tools:$PATH "$AUTOLAUNCH" clean --job 4711 --drain --json >out.log
    json 'd["drain"]["done"] and d["jobs"][0]["left"][0]["kind"] == "folder"'
    contains "what scontrol was told" scontrol.txt "State=DRAIN Reason=autolaunch: job 4711: something of the job is still there"
    umount "$mounted"
    mounted=
else
    echo "not checked: --drain, for nothing can be mounted here"
fi
"$AUTOLAUNCH" clean --job 4711 >out.log || fail "clean, at last: exit code $?"
contains "the folder" out.log "removed folder $folder"

# Root cleans after everybody, as each user: nothing that a hostile one left leads to what is root's.
other=65534
run_as=(setpriv "--reuid=$other" "--regid=$other" --clear-groups env -u XDG_RUNTIME_DIR)
if [ "$(id -u)" -ne 0 ]; then
    echo "not checked: another user's jobs, for this is not root"
else
    install -d -o "$other" -g "$other" his
    orphan his/dead
    traps=/dev/shm/autolaunch-$other-$$ live='' mine=''
    trap 'kill $live $mine 2>/dev/null; rm -rf "$traps"* "/dev/shm/autolaunch-0-$$-his"; cleanup' EXIT
    mkdir -m 755 precious
    mkdir -m 700 secret
    install -d -o "$other" -g "$other" "$traps-name" "$traps-job" "$traps-live" "/dev/shm/autolaunch-0-$$-his"
    echo "of root" | tee precious/file >secret/job
    "${run_as[@]}" ln -s "$work/precious" "$traps-link"
    "${run_as[@]}" ln -s "$work/secret/job" "$traps-name/job"
    "${run_as[@]}" sh -c 'echo "{\"run_id\":\"trap\",\"run_dir\":\"$1/precious\",\"node\":\"n\",\"node_rank\":0}" >"$2-job/job"' sh "$work" "$traps"
    "${run_as[@]}" ln -s "$work/precious" "$traps-job/folder"
    "${run_as[@]}" flock "$traps-live" sleep 100 >/dev/null 2>&1 &
    live=$!
    AUTOLAUNCH_SOCKET=$traps-job/session-0 sleep 100 >/dev/null 2>&1 & # root's own, which only says that it is of that job
    mine=$!
    eventually "the lock of a job that lives" eval '! flock -n "$traps-live" true'
    "$AUTOLAUNCH" clean --dry-run --json >out.log || fail "dry run over all users: exit code $?"
    json 'any(j["user"] == 65534 and j["run_dir"].endswith("his/dead") and any(r["kind"] == "process" for r in j["ended"]) for j in d["jobs"])'
    has $((lives + 1)) || fail "a dry run has ended processes"
    "$AUTOLAUNCH" clean >out.log 2>err.log || fail "clean over all users: exit code $?"
    contains "whose job" out.log "of user $other ($work/his/dead)"
    eventually "the end of his processes" is_idle "$lives"
    expect "whose certificate it is" "$other" "$(stat -c %u his/dead/exit.json)"
    cp his/dead/exit.json out.log
    json 'd["by"] == "clean" and d["clean"]'
    expect "what is root's" "file" "$(ls precious)"
    kill -0 "$mine" || fail "a process of root's was ended for another user's job"
    kill -0 "$live" || fail "a job that lives was ended"
    expect "his traps" "$traps-link $traps-live" "$(echo "$traps"*)"
    [ -d "/dev/shm/autolaunch-0-$$-his" ] || fail "a folder with another user's name was removed"
fi
kill -INT "$alive"
wait "$alive"
nothing_left
echo "passed"
