#!/bin/bash
# Frameworks of PyPI under autolaunch and under their own launcher, with equal results. Each line of the report is a program:
# "ok", or "skipped" with what is missing and the step that installs it.
#
#   REAL_PYTHON=/path/to/venv/bin/python tests/real/python.sh [NAME...]
#
# The environment: pip install torch lightning accelerate transformers deepspeed jax (10 GB with what PyPI's torch brings for
# GPUs, which are not used; deepspeed wants --no-build-isolation). Those that want a torch of their own are looked for in
# others: REAL_COMPOSER (pip install mosaicml) and REAL_XLA (pip install torch==2.9.0 torch_xla==2.9.0). NAME: ddp, fsdp2,
# lightning, accelerate, trainer, deepspeed, jax, ray, composer, xla, tqdm, rich; all. DeepSpeed compiles a part of itself at
# its first start, which takes minutes: REAL_LIMIT=600 (seconds).
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${AUTOLAUNCH:=autolaunch}" "${AUTOLAUNCH_BINARY_DIR:=}"
. "$here/../e2e/lib.sh"
[ -n "${REAL_PYTHON:-}" ] || skip "no Python environment was named: python3 -m venv V && V/bin/pip install torch lightning \
accelerate transformers deepspeed jax tqdm rich, and REAL_PYTHON=V/bin/python"
python=$REAL_PYTHON
bin=${python%/*}
programs=$here/python
export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES= GLOO_SOCKET_IFNAME=lo PYTHON_EXEC=$python HF_HUB_OFFLINE=1
ran=0
limit=${REAL_LIMIT:-300}

wanted() { [ ${#names[@]} -eq 0 ] || [[ " ${names[*]} " = *" $1 "* ]]; }
skipped() { printf 'skipped  %-12s %s\n' "$1" "$2"; }
# has NAME MODULE PACKAGES: without importing it, which takes seconds
has() {
    "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$2') is None)" 2>/dev/null && return
    skipped "$1" "no $2 in $python: pip install $3"
    return 1
}
seconds() { awk -v ns=$(($(date +%s%N) - $1)) 'BEGIN{printf "%.1f s", ns / 1e9}'; }
results() { grep -ao 'result .*' "$1" | sort; }

# same NAME OWN_LAUNCHER... -- ARGUMENTS OF AUTOLAUNCH...: the lines that begin with "result", of two ranks
same() {
    local name=$1 own=() began theirs
    shift
    while [ "$1" != -- ]; do own+=("$1") && shift; done
    shift
    began=$(date +%s%N)
    timeout "$limit" "${own[@]}" >own.out 2>own.log </dev/null ||
        { failed "$name under its own launcher: $(tail -n 5 own.out own.log)"; return; }
    theirs=$(seconds "$began")
    began=$(date +%s%N)
    timeout "$limit" "$AUTOLAUNCH" --no-prefix --nproc-per-node 2 --log-dir "run-$name" "$@" >al.out 2>al.log </dev/null ||
        { failed "$name under autolaunch: $(tail -n 8 al.out al.log)"; return; }
    results own.out >own.result
    results al.out >al.result
    [ "$(wc -l <own.result)" -eq 2 ] || { failed "$name: not two results: $(cat own.out)"; return; }
    diff own.result al.result >difference.txt || { failed "$name: other results: $(cat difference.txt)"; return; }
    ran=$((ran + 1))
    printf 'ok       %-12s %s; own launcher %s\n' "$name" "$(seconds "$began")" "$theirs"
    sed 's/^/           /' al.result
}
torchrun() { same "$1" "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "${@:2}" -- "${@:2}"; }

ddp() { has ddp torch torch && torchrun ddp "$programs/ddp.py"; }
fsdp2() { has fsdp2 torch torch && torchrun fsdp2 "$programs/fsdp2.py" "$work/dcp"; }
# Without a launcher it starts the second process itself.
lightning() { has lightning lightning lightning && same lightning "$python" "$programs/lightning_fit.py" -- "$programs/lightning_fit.py"; }
# Its own launcher starts several processes without GPUs through mpirun alone; its guide names torchrun too.
accelerate() { has accelerate accelerate accelerate && torchrun accelerate "$programs/accelerate_fit.py"; }
trainer() {
    has trainer transformers "transformers accelerate" || return 0
    same trainer "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$programs/trainer_fit.py" "$work/trainer-own" \
        -- "$programs/trainer_fit.py" "$work/trainer-al"
}
deepspeed() {
    has deepspeed deepspeed deepspeed || return 0
    same deepspeed "$bin/deepspeed" --num_gpus 2 --master_port $((20000 + RANDOM % 12000)) "$programs/deepspeed_fit.py" -- "$programs/deepspeed_fit.py"
}
# JAX has no launcher: its processes are started by hand, with their numbers.
jax() {
    has jax jax jax || return 0
    local port=$((20000 + RANDOM % 12000))
    cat >by_hand.sh <<END
for rank in 0 1; do "$python" "$programs/jax_sum.py" 127.0.0.1:$port 2 \$rank & pids[rank]=\$!; done
wait \${pids[0]} && wait \${pids[1]}
END
    same jax bash by_hand.sh -- --no-python sh -c "exec '$python' '$programs/jax_sum.py' 127.0.0.1:$((port + 1)) \$WORLD_SIZE \$RANK"
}
# Ray's nodes are started by hand, too. Here each rank starts one, and Ray Train's workers are Ray's.
ray() {
    has ray ray "ray[train]" || return 0
    local port=$((20000 + RANDOM % 12000))
    mkdir -p "$work/own-ray" "$work/al-ray"
    cat >ray_by_hand.sh <<END
for rank in 0 1; do "$python" "$programs/ray_train.py" \$rank 2 127.0.0.1:$port "$work/own-ray" & pids[rank]=\$!; done
wait \${pids[0]} && wait \${pids[1]}
END
    same ray bash ray_by_hand.sh -- --no-python sh -c "exec '$python' '$programs/ray_train.py' \$RANK \$WORLD_SIZE 127.0.0.1:$((port + 1)) '$work/al-ray'"
}
# with PYTHON NAME...: the same with another environment, whose programs are beside it
with() {
    local python=$1 bin=${1%/*}
    local -x PYTHON_EXEC=$1
    shift
    "$@"
}
# Its own launcher shows what rank 0 prints, and can write what the others do.
composer() {
    has composer composer mosaicml || return 0
    cat >composer_alone.sh <<END
rm -f composer.1
"$bin/composer" -n 2 --stdout "composer.{rank}" --master_port $((20000 + RANDOM % 12000)) "$programs/composer_fit.py" && cat composer.1
END
    same composer bash composer_alone.sh -- "$programs/composer_fit.py"
}
xla() { has xla torch_xla "torch==2.9.0 torch_xla==2.9.0" && PJRT_DEVICE=CPU torchrun xla "$programs/xla_step.py"; }
# bars NAME: programs/NAME_bar.py shows a bar; its last state is in the file and among the lines, in any locale
bars() {
    has "$1" "$1" "$1" || return 0
    local locale began
    began=$(date +%s%N)
    for locale in C C.UTF-8; do
        LC_ALL=$locale timeout "$limit" "$AUTOLAUNCH" -q --nproc-per-node 2 --log-dir "run-$1-$locale" "$programs/bars.py" "$1" \
            >al.out 2>al.log </dev/null || { failed "$1 in $locale: $(tail -n 5 al.out al.log)"; return; }
        grep -aq "100%" al.log al.out || { failed "$1 in $locale: no last state: $(cat al.out al.log)"; return; }
        [ "$(cat al.out al.log | grep -ac '%')" -lt 10 ] || { failed "$1 in $locale: more than last states: $(cat al.log)"; return; }
        cat "run-$1-$locale"/generation-0/rank-1/std* | grep -aq "100%" || { failed "$1: not in its file"; return; }
    done
    ran=$((ran + 1))
    printf 'ok       %-12s last states in the files and on the console, in C and C.UTF-8; %s\n' "$1" "$(seconds "$began")"
}
tqdm() { bars tqdm; }
rich() { bars rich; }

names=("$@")
for each in ddp fsdp2 lightning accelerate trainer deepspeed jax ray tqdm rich; do
    ! wanted "$each" || "$each"
done
! wanted composer || with "${REAL_COMPOSER:-$python}" composer
! wanted xla || with "${REAL_XLA:-$python}" xla
[ $((ran + failures)) -gt 0 ] || skip "none of the frameworks is installed: pip install torch lightning accelerate transformers jax, and REAL_PYTHON"
count_failures
