#!/bin/bash
# Ranks in containers of apptainer and enroot, neither of which is in Debian: FAKES of both, made of bubblewrap, that take the
# options as the documentation of each has them, and refuse all others. What this shows is autolaunch's part: what is bound, which
# variables come in, signals and ends. It shows nothing of apptainer and enroot themselves.
. "$(dirname "$0")/lib.sh"
. "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/container_room.sh"
command -v bwrap >/dev/null || skip "no bubblewrap here (apt-get install bubblewrap)"
make_root root
root=$work/root
bwrap --bind "$root" / --dev-bind /dev /dev --proc /proc /bin/sh -c : 2>bwrap.log || skip "bubblewrap cannot make a namespace here: $(cat bwrap.log)"
mkdir fakes data && echo 'on the node' >data/file && echo private >private
fake_apptainer fakes/apptainer
cat >fakes/enroot <<'END'
#!/bin/bash
# A fake: enroot start [--mount SOURCE:TARGET:none:x-create=auto,rbind,ro|rw]… [--env NAME]… FOLDER COMMAND…
[ "$1" = start ] && shift || exit 1
binds=() variables=()
while [[ $1 = -* ]]; do
    case $1 in
    --mount)
        IFS=: read -r source target type options <<<"$2"
        case $type:$options in
        none:x-create=auto,rbind,ro) binds+=(--ro-bind "$source" "$target") ;;
        none:x-create=auto,rbind,rw) binds+=(--bind "$source" "$target") ;;
        *) echo "[ERROR] Invalid argument: $2" && exit 1 ;;
        esac
        ;;
    --env)
        [[ $2 =~ ^[[:alpha:]_][[:alnum:]_]*$ ]] || { echo "[ERROR] Invalid argument: $2" && exit 1; }
        variables+=(--setenv "$2" "${!2}")
        ;;
    *) echo "[ERROR] Invalid argument: $1" && exit 1 ;;
    esac
    shift 2
done
[ -d "$1" ] || { echo "[ERROR] No such file or directory: $1" >&2; exit 1; }
image=$1 && shift
exec env --ignore-signal=TERM bwrap --bind "$image" / --dev-bind /dev /dev --proc /proc --ro-bind /sys /sys "${binds[@]}" --clearenv --setenv PATH /usr/bin:/bin \
    "${variables[@]}" env --default-signal=TERM "$@"
END
chmod +x fakes/*
export PATH=$work/fakes:$PATH
run() { # EXPECTED_CODE ARGUMENTS...
    local expected=$1 code=0
    shift
    rm -rf run
    timeout 60 "$AUTOLAUNCH" -c job.yaml --log-dir run "$@" >out.log 2>err.log </dev/null || code=$?
    expect "exit code of $*" "$expected" "$code"
}
says_rank() { contains "rank $1" "run/generation-0/rank-$1/stdout" "$2"; } # RANK TEXT
cat >data/seen.sh <<'END'
echo "rank $RANK of $WORLD_SIZE in $(cat /image/mark), $FOR_ALL, path $PATH, preloaded ${LD_PRELOAD:-nothing}, conda ${CONDA_PREFIX:-none}"
[ -S "$AUTOLAUNCH_SOCKET" ] && echo "a socket"
[ "$TOKEN" = canary-of-a-secret ] && [ "$(cat "$KEY_FILE")" = canary-of-a-secret ] && echo "the secrets"
[ -d "$AUTOLAUNCH_RUN_DIR/generation-0" ] && echo "the run directory"
case $PYTHONPATH in *:*) ;; *) [ -e "$PYTHONPATH/autolaunch/__init__.py" ] && echo "the Python module" ;; esac
echo x >"$1/data/no" 2>/dev/null && echo "data can be written"
[ -e "$1/private" ] && echo "the home is seen"
pwd
END
(umask 077 && echo canary-of-a-secret >token)
for runtime in apptainer enroot; do
    printf '%s\n' "container: {image: $root, runtime: $runtime, mounts: [$work/data]}" 'logging: {quiet: true}' \
        'secrets: {TOKEN: {file: token}, KEY: {file: token, as: file}}' >job.yaml
    FOR_ALL='a b' CONDA_PREFIX=/opt/conda PYTHONPATH=/of/the/node run 0 -n 2 sh "$work/data/seen.sh" "$work"
    for rank in 0 1; do
        says_rank $rank "rank $rank of 2 in of the image, a b, path /usr/bin:/bin, preloaded nothing, conda none"
        for what in "a socket" "the secrets" "the run directory" "the Python module"; do says_rank $rank "$what"; done
    done
    grep -qr "can be written\|home is seen" run/generation-0/rank-*/stdout && fail "$runtime: ranks see too much: $(cat run/generation-0/rank-0/stdout)"
    mkdir -p work
    run 0 -n 1 trainer.workdir=work sh -c 'echo here >made; pwd'
    says_rank 0 "$work/work"
    expect "what was made in the folder" here "$(cat work/made)"
    run 7 -n 2 sh -c '[ "$RANK" = 0 ] || exit 7; sleep 60'
    run 0 -n 1 trainer.env.PATH=/of/the/image:/usr/bin:/bin sh -c 'echo "$PATH"' # where the runtime is not
    says_rank 0 /of/the/image:/usr/bin:/bin
    # CUDA's compatibility library of the node, before what the image or the user has.
    mkdir -p compat && echo library >compat/libcuda.so.999.1.2 && ln -sf libcuda.so.999.1.2 compat/libcuda.so.1
    run 0 -n 1 container.cuda_compat="$work/compat" trainer.env.LD_LIBRARY_PATH=/of/the/job sh -c 'echo "$LD_LIBRARY_PATH"; cat ${LD_LIBRARY_PATH%%:*}/libcuda.so.1'
    says_rank 0 /run/autolaunch/cuda-compat:/of/the/job
    says_rank 0 library
    run 65 -n 1 container.cuda_compat="$work/data" true
    contains "no library there" err.log "container.cuda_compat: $work/data on this node has no libcuda.so.1 of a version"
    run 139 -n 1 sh -c 'kill -SEGV $$'

    # Data that comes while ranks run is seen inside as it does, read-only; in the next job it is there.
    rm -rf "$work/scratch" "$work/tokens" && mkdir "$work/tokens" && head -c 1500000 /dev/zero >"$work/tokens/a" && echo last >"$work/tokens/b"
    printf '%s\n' "storage: {scratch: $work/scratch, stage_in: [{from: $work/tokens, as: tokens, start: streaming}, {from: $work/tokens/b, as: one, start: streaming}]}" >>job.yaml
    rm -rf let run && mkdir let
    /usr/bin/python3 "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/held_files.py" let "$work/tokens/a" & # until a rank has looked
    eventually "a file that is held" test -e let/held
    for ((i = 0; i < 600; i++)); do grep -qs "not yet" run/generation-0/rank-0/stdout && touch let/a && break || sleep 0.05; done &
    for job in 1 2; do
        run 0 -n 1 sh -c 'cd $AUTOLAUNCH_DATA_TOKENS && { [ -e b ] || echo not yet; } && (echo x >no) 2>/dev/null && echo it can be written
            until [ -e b ] && [ -e $AUTOLAUNCH_DATA_ONE ]; do sleep 0.05; done; cat b $AUTOLAUNCH_DATA_ONE'
        [ $job = 2 ] || says_rank 0 "not yet"
        expect "the data in it" 2 "$(grep -c last run/generation-0/rank-0/stdout)"
        grep -q "can be written" run/generation-0/rank-0/stdout && fail "$runtime: ranks write into what comes"
    done
    sed -i '$d' job.yaml
    # What ranks write in stage_out's folder is on the node, and is copied from there.
    rm -rf "$work/results" && echo "storage: {scratch: $work/scratch, stage_out: [{from: res, to: $work/results}]}" >>job.yaml
    run 0 -n 2 sh -c 'echo "$AUTOLAUNCH_OUT_RES"; echo "of rank $RANK" >"$AUTOLAUNCH_OUT_RES/r$RANK"'
    expect "$runtime: what came of ranks in containers" "of rank 0 of rank 1" "$(cat results/* | xargs)"
    case $(cat run/generation-0/rank-1/stdout) in
    "$work/scratch/autolaunch-$(id -u)/out/"*/data/res) ;;
    *) fail "$runtime: an odd place: $(cat run/generation-0/rank-1/stdout)" ;;
    esac
    expect "$runtime: what stays on the node" "" "$(ls "$work/scratch/autolaunch-$(id -u)/out")"
    sed -i '$d' job.yaml

    # A Python rank tells its agent of its steps through the socket that is bound.
    run 0 -n 1 "container.mounts=[/usr]" /usr/bin/python3 -c 'import autolaunch; autolaunch.report_step(3, total_steps=9); assert autolaunch.connected()'
    grep -q '"step":3' run/events.jsonl || fail "$runtime: no step: $(cat run/events.jsonl)"

    # MPI ranks find the PMIx server at its socket.
    if has_mpi; then
        run 0 -n 2 "container.mounts=[/usr, /etc]" trainer.mpi=pmix \
            /usr/bin/python3 -c "$mpi_ranks"
        for rank in 0 1; do says_rank $rank "mpi $rank 2 2"; done
    fi

    # The program is our own child: signals reach it, and it goes with its agent.
    for how in TERM KILL; do
        rm -rf run
        "$AUTOLAUNCH" -c job.yaml --log-dir run -n 1 sh -c 'trap "echo saved; exit 0" TERM; echo up; while :; do sleep 0.1; done' >out.log 2>err.log </dev/null &
        job=$!
        eventually "the rank" grep -qs up run/generation-0/rank-0/stdout
        rank=$(pgrep -f 'echo saved; exit 0" TERM; echo up' | while read -r pid; do [ "$(cat "/proc/$pid/comm")" = sh ] && echo "$pid"; done)
        [ $how = TERM ] && kill -TERM "$job" || kill -KILL "$(pgrep -P "$(pgrep -P "$job")")"
        code=0
        wait "$job" || code=$?
        expect "the code after SIG$how" "$([ $how = TERM ] && echo 143 || echo 137)" "$code"
        [ $how = KILL ] || says_rank 0 saved
        [ -e "/proc/${rank:?the pid of the rank}" ] && fail "$runtime: the rank outlives its agent"
    done
done

# ---- the plan says all of it -----------------------------------------------------------------------------------------
"$AUTOLAUNCH" plan -c job.yaml container.runtime=apptainer -n 2 true >out.log 2>err.log || fail "plan: $(cat err.log)"
for text in "container of each rank" "$work/fakes/apptainer" "$work/data" "container.mounts" "the run directory" \
    "but PATH, HOME, LD_LIBRARY_PATH and others that are of the node" "ranks do not see $work in their container, and start in the image's own folder" \
    "what the program in the image is linked with is not looked at"; do
    contains "the plan" out.log "$text"
done
"$AUTOLAUNCH" plan --json -c job.yaml -n 2 true >out.log || fail "plan --json"
json 'd["container"]["runtime"] == "enroot" and d["container"]["image"].endswith("/root")'
json '[b["writable"] for b in d["container"]["binds"] if b["reason"] == "container.mounts"] == [False]'
"$AUTOLAUNCH" plan -c job.yaml container.runtime=pyxis -n 2 true >out.log || fail "plan with pyxis"
contains "pyxis" out.log "autolaunch must be installed in it, and starts ranks as if there were none: srun --container-image=$root"

capture=$(find "$AUTOLAUNCH_SOURCE_DIR/tests/data" -name '*.xml' | sort | head -n 1)
"$AUTOLAUNCH" plan --topology "$capture" -c job.yaml true >out.log 2>err.log || fail "plan of a saved machine: $(cat err.log)"
contains "a saved machine" out.log "container: not decided what ranks see of the node in $root"

# ---- what cannot be ---------------------------------------------------------------------------------------------------
echo 'an image' >image.sif
run 65 -n 1 "container.image=$work/image.sif" container.runtime=apptainer "container.digest=sha256:$(printf '%064d' 0)" true
contains "another file" err.log "container.digest: $work/image.sif has sha256:$(sha256sum image.sif | cut -d' ' -f1), and not sha256:0000"
run 65 -n 1 --preload os python3 -c pass
contains "preloaded modules" err.log "ranks run in a container, of whose files an interpreter on the node has none"
run 65 -n 1 restart.warm_processes=true true
contains "warm processes" err.log "a spare's container cannot become a rank's"
PATH=/usr/bin:/bin run 65 -n 1 true
contains "no enroot" err.log "container.runtime: this node has no enroot in PATH"
nothing_left
echo "passed"
