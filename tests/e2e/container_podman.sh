#!/bin/bash
# Ranks in containers of a real, rootless podman: what they see of the node and what not, their signals and exit codes, and that
# nothing is left of them, whoever is killed.
. "$(dirname "$0")/lib.sh"
. "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/container_room.sh"
command -v podman >/dev/null && command -v crun >/dev/null || skip "no podman with crun here (apt-get install podman)"
enter_room "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/container_podman.sh"
for_all_users
make_user
trap leave_room EXIT
make_root root
chmod -R a+rX root
tar -C root -c . | as_user podman import - localhost/contained:test >import.log 2>&1 || fail "podman cannot import an image"
cd home || exit 1
mkdir data out && echo 'on the node' >data/file && chown -R 2003:2003 . && echo 'at home' >private
spec() { # LINE...: of a spec for ranks in the image
    printf '%s\n' "container: {image: localhost/contained:test, runtime: podman, mounts: [$PWD/data, $PWD/out:rw]}" \
        'logging: {quiet: true}' "$@" >job.yaml
}
run() { # EXPECTED_CODE ARGUMENTS...
    local expected=$1 code=0
    shift
    rm -rf run out/*
    timeout 60 "${user[@]}" "$AUTOLAUNCH" -c job.yaml --log-dir run "$@" \
        >"$work/out.log" 2>"$work/err.log" <"${input:-/dev/null}" || code=$?
    expect "exit code of $*" "$expected" "$code"
}
says_rank() { contains "rank $1" "run/generation-0/rank-$1/stdout" "$2"; } # RANK TEXT
# What is there of user 2003 besides the process that holds podman's namespaces.
processes() { # but for the one that holds the user's namespaces: podman itself, or catatonit where that is installed
    ps -u 2003 -o pid=,comm=,args= | grep -v '<defunct>' |
        awk -v pause="$(cat "$work/xdg/libpod/tmp/pause.pid" 2>/dev/null)" '$1 != pause' | cut -c1-200
}
containers() { as_user podman ps -aq; }
nothing_of_it() {
    expect "processes left behind" "" "$(processes)"
    expect "sockets left behind" "" "$(ls "$work/xdg" | grep autolaunch)"
    expect "containers left behind" "" "$(containers)"
}

# ---- what ranks see -------------------------------------------------------------------------------------------------
spec 'secrets: {TOKEN: {file: token}, KEY: {file: token, as: file}}'
canary=canary-$E2E_MARK # no other test has it
(umask 077 && echo "$canary" >token) && chown 2003 token
cat >out.sh <<'END'
echo "rank $RANK of $WORLD_SIZE in $(cat /image/mark), uid $(id -u), $FOR_ALL, home ${HOME:-none}, path $PATH"
[ -S "$AUTOLAUNCH_SOCKET" ] && echo "a socket"
echo "data: $(cat DIR/data/file)"
(echo x >DIR/data/no) 2>/dev/null && echo "data can be written"
[ -e DIR/private ] && echo "the home is seen"
echo "$TOKEN" >DIR/out/token-$RANK
cat "$KEY_FILE" >DIR/out/key-$RANK
echo "through memory" >/dev/shm/contained-$$ && rm /dev/shm/contained-$$ && echo "shared memory"
while [ ! -e DIR/out/go ]; do sleep 0.1; done
END
sed "s|DIR|$PWD|g" out.sh >data/seen.sh
( # while ranks run, no command line of the machine has the secret
    eventually "ranks" test -s out/key-0 -a -s out/key-1
    grep -alf token /proc/[0-9]*/cmdline 2>/dev/null >"$work/exposed"
    touch out/go
) &
FOR_ALL='a b' run 0 -n 2 sh "$PWD/data/seen.sh"
wait
for rank in 0 1; do
    says_rank $rank "rank $rank of 2 in of the image, uid 2003, a b, home"
    says_rank $rank "a socket"
    says_rank $rank "data: on the node"
    says_rank $rank "shared memory"
    expect "the secret as a variable" "$canary" "$(cat out/token-$rank)"
    expect "the secret as a file" "$canary" "$(cat out/key-$rank)"
done
grep -q "can be written\|home is seen\|$work/programs" run/generation-0/rank-*/stdout && fail "ranks see too much: $(cat run/generation-0/rank-0/stdout)"
expect "command lines with the secret" "" "$(cat "$work/exposed")"
contains "what podman keeps" "$work/err.log" "TOKEN is a secret; as: file keeps it in memory"
nothing_of_it

# ---- data on the node's own disk ----------------------------------------------------------------------------------------
# Data on the node's own disk: each rank has it read-only at the same path, and writes results where the node finds them.
mkdir scratch && chown 2003:2003 scratch
staging=("storage: {scratch: $PWD/scratch, stage_in: [{from: data, as: d}], stage_out: [{from: r, to: $PWD/out}]}")
spec "${staging[@]}"
run 0 -n 2 sh -c 'cat $AUTOLAUNCH_DATA_D/file; mkdir $AUTOLAUNCH_DATA_D/x 2>&1; rm -f $AUTOLAUNCH_DATA_D/file 2>&1; echo $RANK >$AUTOLAUNCH_OUT_R/$RANK; ls '"$PWD"'/scratch/autolaunch-2003'
for rank in 0 1; do
    says_rank $rank "on the node"
    says_rank $rank "Read-only file system"
done
expect "what came of the ranks" "0 1" "$(cat out/0 out/1 | xargs)"
expect "whose it is" 2003 "$(stat -c %u out/0)"
expect "what stays here" "" "$(ls scratch/autolaunch-2003/out)"
contains "what else a rank sees there" run/generation-0/rank-0/stdout "out"
nothing_of_it

# ---- stdin, exit codes, signals --------------------------------------------------------------------------------------
spec
echo "a line" >"$work/line" && input=$work/line run 0 -n 1 cat
says_rank 0 "a line"
run 7 -n 2 sh -c '[ "$RANK" = 0 ] || exit 7; sleep 60'
run 137 -n 1 sh -c 'kill -KILL $$'
contains "its end by a signal" "$work/err.log" "was killed by SIGKILL"
run 0 -n 2 restart.max_restarts=1 sh -c '[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 3'
[ -d run/generation-1/rank-1 ] || fail "no second generation"
if has_mpi; then # whose ranks are in user namespaces of their own, and do not try to read each other's memory
    run 0 -n 2 "container.mounts=[/usr, /etc/alternatives, /etc/openmpi]" trainer.mpi=pmix /usr/bin/python3 -c "$mpi_ranks"
    for rank in 0 1; do says_rank $rank "mpi $rank 2 2"; done
    grep -q single_copy run/generation-0/rank-*/stderr && fail "Open MPI tries CMA: $(cat run/generation-0/rank-0/stderr)"
fi
nothing_of_it
start() { # COMMAND...: one rank in the background, until it has said "up"
    rm -rf run
    "${user[@]}" "$AUTOLAUNCH" -c job.yaml --log-dir run --nproc-per-node 1 "$@" >"$work/out.log" 2>"$work/err.log" </dev/null &
    job=$!
    eventually "the rank" grep -qs up run/generation-0/rank-0/stdout
}
ended() { # EXPECTED_CODE
    local code=0
    wait "$job" || code=$?
    expect "its exit code" "$1" "$code"
    nothing_of_it
}
start sh -c 'trap "echo saved; exit 0" TERM; echo up; while :; do sleep 0.1; done'
kill -TERM "$job"
ended 143
says_rank 0 saved
# A signal of the job's own finds the program beside podman; one that does not hear SIGTERM is ended.
start restart.grace_period=1s -- sh -c 'trap "" TERM; trap "echo heard" USR1; echo up; while :; do sleep 0.1; done'
kill -USR1 "$job"
eventually "SIGUSR1 in the container" grep -qs heard run/generation-0/rank-0/stdout
kill -TERM "$job"
ended 143

# ---- whoever is killed -----------------------------------------------------------------------------------------------
start sh -c 'echo up; sleep 100; :'
kill -KILL "$(pgrep -u 2003 -f '^/usr/bin/podman run')" # the rank's own process, beside which its program runs
ended 137
start sh -c 'trap "" TERM; echo up; setsid sleep 100 & sleep 100; :'
agent=$(pgrep -P "$(pgrep -P "$job")")
kill -KILL "${agent:?the agent}"
ended 137

# ---- the image's digest, and what cannot be ---------------------------------------------------------------------------
digest=$(as_user podman image inspect --format '{{.Digest}}' localhost/contained:test)
run 0 -n 1 "container.digest=$digest" id
run 125 -n 1 "container.digest=sha256:$(printf "%064d" 0)" id
contains "another image" "$work/err.log" "the container's image is not on this node: podman pull fetches it"
run 65 -n 1 container.runtime=docker true
contains "docker" "$work/err.log" "docker's containers are children of its daemon and not of autolaunch"
run 65 -n 1 logging.stdio=pty true
contains "a terminal" "$work/err.log" "podman gives a terminal away only through a copy"

# ---- the doctor looks into it -------------------------------------------------------------------------------------------
doctor() { # EXPECTED_CODE ARGUMENTS...
    local expected=$1 code=0
    shift
    as_user "$AUTOLAUNCH" doctor "$@" >"$work/out.log" 2>"$work/err.log" </dev/null || code=$?
    expect "exit code of doctor $*" "$expected" "$code"
}
mkdir -p "$work/root/usr/lib" && touch "$work/root/usr/lib/libnccl.so.2.21.5"
tar -C "$work/root" -c . | as_user podman import --change 'ENV CUDA_VERSION=12.4' - localhost/contained:cuda >"$work/import.log" 2>&1 || fail "import"
doctor 0 -c job.yaml container.image=localhost/contained:cuda --container spec
contains "the NCCL of the image" "$work/out.log" "/usr/lib/libnccl.so.2.21.5"
[ -e /proc/driver/nvidia/version ] || contains "no driver" "$work/out.log" "the image has CUDA 12.4, and this node no NVIDIA driver"
doctor 78 --container localhost/none:1
contains "no image" "$work/out.log" "the image does not start: "
doctor 64 --container spec
nothing_of_it
echo "passed"
