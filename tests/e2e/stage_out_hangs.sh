#!/bin/bash
# A target of storage.stage_out that does not answer: a file system on which the making of a file hangs for good (not even SIGKILL
# ends who waits there), and a server that takes connections and says nothing. The job ends all the same, says what stays, and
# other targets get theirs. With AUTOLAUNCH_SLOW_TESTS=1 also by the times of the guide, a minute and two and a half.
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
[ -x $python ] || skip "no $python"
[ -r /dev/fuse ] && [ "$(id -u)" = 0 ] || skip "no /dev/fuse, or not root"
scratch=$work/scratch
out=$scratch/autolaunch-0/out
node=$(hostname)
mkdir hangs
hang() {
    rm -f mount.out # of one before
    $python "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/hanging_target.py" hangs >mount.out 2>&1 &
    server=$!
    eventually "a mount" grep -q mounted mount.out
    mounted=$work/hangs
}
let_go() { # the kernel ends who waits there
    kill "$server" && wait "$server" 2>/dev/null
    eventually "an end of the mount" umount hangs && mounted=
}
hang
$python -c 'import socket
server, kept = socket.create_server(("127.0.0.1", 0)), []
print(server.getsockname()[1], flush=True)
while True: kept.append(server.accept())' >port &
silent=$!
trap 'kill $silent $server 2>/dev/null; cleanup' EXIT
eventually "a server" test -s port
export AWS_ACCESS_KEY_ID=AKIATEST AWS_SECRET_ACCESS_KEY=test/secret+with/slashes= AWS_ENDPOINT_URL=http://localhost:$(<port)
for kind in folder server; do
    [ $kind = folder ] && to=$work/hangs || to=s3://bucket/runs/
    cat >$kind.yaml <<END
trainer: {command: [/bin/sh, -c, 'echo res >\$AUTOLAUNCH_OUT_RES/r; echo fine >\$AUTOLAUNCH_OUT_OK/$kind'], mpi: none}
storage: {scratch: $scratch, stage_out: [{from: res, to: "$to"}, {from: ok, to: fine}]}
monitoring: {resource_tracking: false}
restart: {grace_period: 1s}
END
done
copiers() { # processes of ours that copy: found by the folder that they lock
    local lock
    for lock in "$out"/*; do [ -d "$lock" ] && ! flock --exclusive --nonblock "$lock" true && basename "$lock"; done
}
has_copier() { [ -n "$(copiers)" ]; }
no_copiers() { [ -z "$(copiers)" ]; }

# What plan says: the one that hangs takes no time of the other.
if [ "${AUTOLAUNCH_SLOW_TESTS:-}" = 1 ]; then
    kill -STOP $server
    "$AUTOLAUNCH" plan -c folder.yaml >plan.log 2>&1 || fail "no plan"
    kill -CONT $server
    grep -Eq "AUTOLAUNCH_OUT_RES +to $work/hangs +at every end · its file system does not answer within" plan.log || fail "what plan says of what hangs: $(cat plan.log)"
    grep -Eq "AUTOLAUNCH_OUT_OK +to $work/fine +at every end · it will be made" plan.log || fail "what plan says of what does not: $(cat plan.log)"
fi

# Somebody ends the wait: grace_period is left, what stays is named, and so is a process that nothing ends.
for kind in folder server; do
    "$AUTOLAUNCH" -c $kind.yaml --log-dir hurried-$kind >$kind.log 2>&1 &
    job=$!
    eventually "the copier" has_copier
    sleep 0.7
    kill -TERM $job
    eventually "the end of a job that waits for a $kind" grep -q "exit code 69" $kind.log
    # Who hangs in the kernel is named; it is waited for after that, for 20 s.
    if [ $kind = folder ]; then
        eventually "a word of the process that nothing ends" grep -q "(autolaunch-stag), in uninterruptible sleep: a device or file system does not answer" folder.log
        let_go
    fi
    code=0
    wait $job || code=$?
    expect "the exit code of a job that waited for a $kind" 69 $code
    contains "what stays" $kind.log "left      on $node: res (4 B or more) stays in $out/"
    contains "why" $kind.log "the job's time was over before all of it was copied"
    contains "what finishes it" $kind.log "there, \`autolaunch stage-out --scratch $scratch "
done
grep -q "still there" server.log && fail "a process outlives a job that waited for a server: $(cat server.log)"
eventually "the end of the last copier" no_copiers

# By themselves, in the guide's time; and the command, with one target that hangs and others that do not.
if [ "${AUTOLAUNCH_SLOW_TESTS:-}" = 1 ]; then
    rm -rf fine
    hang
    timed() { # NAME LEAST MOST COMMAND...
        local began=$SECONDS code=0
        "${@:4}" >"$1.log" 2>&1 || code=$?
        echo "$1: exit code $code after $((SECONDS - began)) s"
        [ $code = 69 ] && [ $((SECONDS - began)) -ge "$2" ] && [ $((SECONDS - began)) -le "$3" ] || touch failed
    }
    timed command 60 260 "$AUTOLAUNCH" stage-out --scratch "$scratch" &
    timed folder 60 110 "$AUTOLAUNCH" -c folder.yaml --log-dir alone-folder storage.scratch="$work/scratch-1" &
    timed server 110 170 "$AUTOLAUNCH" -c server.yaml --log-dir alone-server storage.scratch="$work/scratch-2" &
    wait -n; wait -n; wait -n
    [ ! -e failed ] || fail "the times or codes"
    contains "what hung" folder.log "res: nothing went to $work/hangs for 60 s; what it is on has to answer"
    contains "who did not answer" server.log "cannot write s3://bucket/runs/r: "
    for kind in folder server; do contains "the other target" $kind.log "copied    ok of $node: 5 B in 1 file to $work/fine"; done
    contains "the command" command.log "res: nothing went to $work/hangs for 60 s; what it is on has to answer"
    expect "what it copied of both jobs" 2 "$(grep -c 'ok to .*/fine: 5 B in 1 file' command.log)"
    expect "files at the other target" "folder server" "$(ls fine | xargs)"
    let_go
    eventually "the end of the last copier" no_copiers
fi

# The file system answers: all of it comes.
says 0 "copied" "$AUTOLAUNCH" stage-out --scratch "$scratch" "$(basename "$(grep -l "$work/hangs" "$out"/*/order | xargs dirname)")"
expect "what came" res "$(cat hangs/r)"

# Its server is gone, and every call says so: nothing is "no directory", and a job may come again.
hang
kill "$server" && wait "$server" 2>/dev/null
says 69 "make the folder $work/hangs: Transport endpoint is not connected; its file system has to answer" "$AUTOLAUNCH" -c folder.yaml --log-dir gone
cat >gone.yaml <<END
trainer: {command: [/bin/true], mpi: none}
storage: {scratch: $scratch, stage_in: [{from: $work/hangs, as: it}]}
END
says 69 "cannot read $work/hangs: Transport endpoint is not connected" "$AUTOLAUNCH" -c gone.yaml --log-dir gone-in
eventually "an end of the mount" umount hangs && mounted=
count_failures
