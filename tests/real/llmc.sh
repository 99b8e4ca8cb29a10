#!/bin/bash
# llm.c's CPU trainer, train_gpt2.c, cut over ranks by ShardedModel, beside itself as it is: the same losses on 1, 2 and 3
# ranks, the same samples, and the time of a step. llmc/sharded.sed has every line that a port changes, llmc/sharded.hpp what
# it calls. Weights and tokens are random, in llm.c's file formats (llmc/make_files.cpp). And its loader of tokens,
# llmc/dataloader.h, beside TokenReader: the same batches, and the time of both (llmc/tokens.cpp).
#
#   LLMC=/path/to/llm.c        a checkout; without one it is cloned
#   LLMC_PREFIX=/prefix        an installed autolaunch; without one the build is installed
#   LLMC_TIME=small            the sizes that are timed: small (the default), 124M (GPT-2's, 3 GB and minutes), or none
#
# Times are of this machine as it is: programs take turns, and the medians are compared.
. "$(dirname "$0")/../e2e/lib.sh"
here=$AUTOLAUNCH_SOURCE_DIR/tests/real/llmc
for program in cmake ninja gcc g++; do command -v $program >/dev/null || skip "no $program"; done

llmc=${LLMC:-}
if [ -z "$llmc" ]; then
    llmc=$work/llm.c
    timeout 60 git clone -q --depth 1 https://github.com/karpathy/llm.c "$llmc" >clone.out 2>&1 ||
        skip "llm.c is not here and cannot be cloned ($(tail -n 1 clone.out)): LLMC=/path/to/llm.c"
fi
[ -r "$llmc/train_gpt2.c" ] || fail "LLMC=$llmc has no train_gpt2.c"
prefix=${LLMC_PREFIX:-$work/prefix}
[ -n "${LLMC_PREFIX:-}" ] || cmake --install "$AUTOLAUNCH_BINARY_DIR" --prefix "$prefix" >install.log 2>&1 || fail "install"
sed -f "$here/main.sed" "$llmc/train_gpt2.c" >original.c && sed -f "$here/sharded.sed" original.c >sharded.cpp || fail "sed"
# What is patched must be all of it: a line that sed no longer finds would be left to llm.c's own arrays.
[ "$(grep -c 'sharded->' sharded.cpp)" = 45 ] ||
    fail "this llm.c is another: $(grep -c 'sharded->' sharded.cpp) lines were changed instead of 45"
cmake -G Ninja -S "$here" -B built -DCMAKE_PREFIX_PATH="$prefix" -DLLMC="$(realpath "$llmc")" -DSOURCES="$work" \
    -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ >build.out 2>&1 && cmake --build built >>build.out 2>&1 ||
    fail "llm.c's port does not build: $(tail -n 20 build.out)"

mkdir tokens && built/tokens tokens >tokens.out 2>&1 || fail "llm.c's loader has other batches:"$'\n'"$(cat tokens.out)"
cat tokens.out && rm -r tokens

export OMP_NUM_THREADS=1 LLMC_STRATEGY=full_shard
losses() { grep -oE '(val loss|step [0-9]+: train loss) [0-9.]+' "$1"; }
# As many lines of the same words, with numbers that differ by the order of sums alone: the reference's and the other's.
equal() { # FILE FILE
    paste <(losses "$1") <(losses "$2") | awk -F'\t' '
        { n = split($1, a, " "); m = split($2, b, " "); off = a[n] - b[m]; if (off < 0) off = -off; if (off > worst) worst = off
          if (n != m || off > 2e-5 * a[n]) { print "  " $0; bad = 1 } }
        END { if (NR < 10) { print "  only " NR " losses"; bad = 1 }; printf "%d losses, off by %.6f at most\n", NR, worst; exit bad }'
}
samples() { sed -n '/^---$/,/^---$/p' "$1"; }

mkdir small && cd small || exit 1
../built/make_files 3 4 64 64 300 40000 || fail "make_files"
export LLMC_BATCH=6 LLMC_LENGTH=32 LLMC_STEPS=22
../built/original >original.out || fail "llm.c itself"
for ranks in 1 2 3; do
    "$AUTOLAUNCH" --nproc-per-node $ranks --log-dir "run-$ranks" -- ../built/sharded >"$ranks.log" 2>&1 || fail "$ranks ranks"
    result=$(equal original.out "run-$ranks/generation-0/rank-0/stdout") || fail "$ranks ranks:"$'\n'"$result"
    echo "$ranks ranks: $result"
    [ "$(samples original.out | wc -c)" -gt 100 ] && [ "$(samples original.out)" = "$(samples "run-$ranks/generation-0/rank-0/stdout")" ] ||
        fail "$ranks ranks sample another text"
done
for strategy in shard_grad_op shard_optimizer no_shard; do
    LLMC_STRATEGY=$strategy "$AUTOLAUNCH" --nproc-per-node 2 --log-dir "run-$strategy" -- ../built/sharded >"$strategy.log" 2>&1 ||
        fail "$strategy"
    result=$(equal original.out "run-$strategy/generation-0/rank-0/stdout") || fail "$strategy:"$'\n'"$result"
done
rm -f ./*.log
cd ..

# The median of a step, in ms, without the first of each run, which allocates.
times() { grep -oE 'took [0-9.]+' "$@" | grep -oE '[0-9.]+$' | sort -n; }
median() { awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'; }
compare() { # FOLDER ROUNDS
    local round
    cd "$1" && rm -f ./*.times || exit 1
    for round in $(seq "$2"); do
        ../built/original | grep 'took' | tail -n +2 >>original.times
        ../built/sharded | grep 'took' | tail -n +2 >>sharded.times
    done
    theirs=$(times original.times | median) ours=$(times sharded.times | median)
    echo "$1: a step takes llm.c $theirs ms, sharded $ours ms at one rank with norm and search for what is not finite:" \
        "$(awk "BEGIN { printf \"%.3f\", $theirs / $ours }") x (medians of $(wc -l <original.times) steps, in turns)"
    cd ..
}
unset OMP_NUM_THREADS
case ${LLMC_TIME:-small} in
none) ;;
small) LLMC_STEPS=9 compare small 5 ;;
124M)
    mkdir 124M && (cd 124M && ../built/make_files 12 12 768 1024 50257 40000) || fail "make_files"
    LLMC_BATCH=4 LLMC_LENGTH=64 LLMC_STEPS=4 compare 124M 3
    ;;
*) fail "LLMC_TIME=$LLMC_TIME: small, 124M or none" ;;
esac
echo "llm.c: equal losses and samples on 1, 2 and 3 ranks"
