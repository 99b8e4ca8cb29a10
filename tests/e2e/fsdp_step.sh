#!/bin/bash
# bench/fsdp_step with tiny sizes: without PyTorch ours are measured and PyTorch is said to be left out; beside a peer that a
# script stands in for there is a table of both, and a peer whose losses differ is refused.
. "$(dirname "$0")/lib.sh"
[ -x "$AUTOLAUNCH_BINARY_DIR/bench/fsdp_step_perf" ] || skip "this build has no benches or no examples"
bench="$AUTOLAUNCH_SOURCE_DIR/bench/fsdp_step"
tiny=(--layers 1 --width 32 --heads 2 --context 16 --sequences 1 --rounds 2 --idle-layers 2)

"$bench" "$AUTOLAUNCH_BINARY_DIR" "${tiny[@]}" --python /bin/false --output alone.md >alone.log 2>&1
expect "without PyTorch" 0 $?
contains "the skip" alone.log "skipped: PyTorch, because /bin/false has none with fully_shard"
for name in full_shard shard_grad_op shard_optimizer no_shard hybrid_shard "full_shard, deterministic" "full_shard, in between"; do
    grep -qE "^\| $name \| [0-9.]+ \| [0-9,]+ \| " alone.md || fail "no row of $name: $(cat alone.md)"
done
# All of so small a model is one bucket, whose gather is the first and whose reduction is the last: nothing can be hidden.
grep -A2 "^| full_shard, 2 layers, idle compute | " alone.md | grep -qE "^\| [0-9.]+ ms \| .* \| [0-9]+% \| 0% \|$" ||
    fail "no row of idle compute: $(cat alone.md)"
contains "the losses" alone.md "losses of 7 contestants agree to "
contains "the cost of determinism" alone.md "deterministic mode takes "
grep -q "FSDP2" alone.md && fail "a table of PyTorch's without PyTorch"

# A peer that answers with given losses.
cat >peer <<'END'
#!/usr/bin/env python3
import json, os, sys
if sys.argv[1] == "-c":
    sys.exit(0)    # it has fully_shard
for line in sys.stdin:
    verb = line.split()[0]
    answer = {"check": {"losses": json.loads(os.environ["PEER_LOSSES"]), "resident": 1 << 20}, "step": {"step_s": 1.0},
              "rates": {"version": "0.0", "matmul": 1e9}}[verb]
    if os.environ["RANK"] == "0":
        print(json.dumps(answer), flush=True)
END
chmod +x peer
losses=$(sed -n 's/^losses of .*: \([0-9. ]*\)$/\1/p' alone.md)
PEER_LOSSES="[${losses// /,}]" "$bench" "$AUTOLAUNCH_BINARY_DIR" "${tiny[@]}" --python ./peer >both.log 2>&1
expect "with a peer of the same losses" 0 $?
grep -qE "^\| FSDP2 \| 1000.0 \| 32 \| .*x \(full_shard\) \|$" both.log || fail "no row of the peer's: $(cat both.log)"
contains "the losses" both.log "losses of 9 contestants agree to "
PEER_LOSSES="[5.0, 4.0, 3.0]" "$bench" "$AUTOLAUNCH_BINARY_DIR" "${tiny[@]}" --python ./peer >other.log 2>&1
expect "with a peer of other losses" 1 $?
contains "the refusal" other.log "the contestants do not compute the same"
"$bench" "$work" >unbuilt.log 2>&1
expect "without the program" 1 $?
contains "what to build" unbuilt.log "build the target fsdp_step_perf"
nothing_left
