#!/bin/bash
# Stdin reaches the rank that is to have it, whole, on one node and on several, and again after a restart.
. "$(dirname "$0")/lib.sh"

# run EXPECTED_CODE ARGUMENTS...: with this function's stdin; leaves out.log, err.log and run/
run() {
    local expected=$1 code=0
    shift
    rm -rf run
    "$AUTOLAUNCH" --log-dir run "$@" >out.log 2>err.log || code=$?
    expect "exit code of $*" "$expected" "$code"
}
# read_by RANK [GENERATION]: the digest of what it read
read_by() { cat "run/generation-${2:-0}/rank-$1/stdout"; }
seq 1 200000 >numbers
digest=$(sha1sum <numbers)
nothing=$(sha1sum </dev/null)

run 0 -n 2 sha1sum <numbers
expect "rank 0's file" "$digest" "$(read_by 0)"
expect "rank 1's" "$nothing" "$(read_by 1)"
run 0 -n 2 sha1sum < <(cat numbers)
expect "rank 0's pipe" "$digest" "$(read_by 0)"
run 0 -n 3 --stdin all sha1sum <numbers
for rank in 0 1 2; do expect "all: rank $rank's file" "$digest" "$(read_by $rank)"; done
run 0 -n 3 --stdin all sha1sum < <(cat numbers)
for rank in 0 1 2; do expect "all: rank $rank's pipe" "$digest" "$(read_by $rank)"; done
run 0 -n 2 --stdin 1 sha1sum <numbers
expect "rank 1's, as chosen" "$digest" "$(read_by 1)"
expect "rank 0's then" "$nothing" "$(read_by 0)"
run 0 -n 2 --stdin none sha1sum < <(cat numbers)
expect "none" "$nothing" "$(read_by 0)"
run 65 -n 2 --stdin 2 sha1sum <numbers
contains "a rank that is not there" err.log "stdin is to go to rank 2, but there are ranks 0 to 1"
echo "trainer: {command: sha1sum, stdin: 1}" >spec.yaml
run 0 -c spec.yaml -n 2 <numbers
expect "rank 1's, by the spec" "$digest" "$(read_by 1)"
run 0 -n 2 sha1sum <&-
expect "a closed stdin" "$nothing" "$(read_by 0)"

# The spec's own stdin is nobody's.
run 0 -c /dev/stdin -n 1 <<<"trainer: {command: sha1sum}"
expect "behind the spec" "$nothing" "$(read_by 0)"
run 65 -c /dev/stdin -n 1 --stdin 0 <<<"trainer: {command: sha1sum}"
contains "twice the same" err.log "the spec was read from it"

# What a rank does not read stays for the next: a loop over a list goes on.
printf '%s\n' one two three >list
while read -r word; do
    "$AUTOLAUNCH" -q -n 1 --log-dir "run-$word" true 2>>err.log
    echo "$word"
done <list >words
expect "all words of the list" "one two three" "$(tr '\n' ' ' <words | sed 's/ $//')"

# A restart reads from where it began: a file, which a shell's read has begun, and a pipe.
cat >trainer.sh <<'END'
sha1sum
[ "$AUTOLAUNCH_GENERATION" -ge 1 ] || exit 3
END
tail -n +2 numbers >rest
{ read -r _; run 0 -n 1 --max-restarts 2 sh trainer.sh; } <numbers
for generation in 0 1; do expect "the file in generation $generation" "$(sha1sum <rest)" "$(read_by 0 $generation)"; done
run 0 -n 1 --max-restarts 2 sh trainer.sh < <(cat numbers)
for generation in 0 1; do expect "the pipe in generation $generation" "$digest" "$(read_by 0 $generation)"; done
run 3 -n 1 --max-restarts 2 sh trainer.sh < <(head -c 70000000 /dev/zero)
contains "more than is kept" err.log "no restart: more came in on stdin through a pipe than is kept"
expect "restarts" 1 "$(find run -name 'generation-*' | wc -l)"

# On another node: the first one's agent sends it.
export AUTOLAUNCH_JOB_KEY=0123456789abcdef0123456789abcdef
nodes() { # ARGUMENTS...: two nodes of two ranks each, of which the first has this function's stdin
    rm -rf run
    "$AUTOLAUNCH" --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --rdzv-id "$E2E_MARK" -n 2 --log-dir run "$@" \
        >out1.log 2>err1.log </dev/null &
    "$AUTOLAUNCH" --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --rdzv-id "$E2E_MARK" -n 2 --log-dir run "$@" \
        >out.log 2>err.log
    expect "exit code of the first node" 0 $?
    wait $!
    expect "exit code of the second node" 0 $?
}
nodes --stdin 3 sha1sum <numbers
expect "rank 3's file" "$digest" "$(read_by 3)"
expect "rank 2's" "$nothing" "$(read_by 2)"
nodes --stdin all sha1sum < <(cat numbers)
for rank in 0 1 2 3; do expect "all: rank $rank's pipe, two nodes" "$digest" "$(read_by $rank)"; done
nothing_left
echo "passed"
