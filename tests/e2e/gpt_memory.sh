#!/bin/bash
# GPT-2's shape, reduced (layers so large that not all of them become one bucket), three steps on two ranks: activations computed again, gradients of micro-batches added up, and an
# offloaded optimizer, each alone and all at once, give the losses of none of them; and the memory of each is what was planned.
. "$(dirname "$0")/lib.sh"
gpt=$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt
[ -x "$gpt" ] || skip "the example gpt is not built"
head -c 3000 /dev/urandom | base64 >text
printf '%s\n' '{"model": {"preset": "gpt2-124m", "layers": 12, "heads": 4, "width": 256, "context": 16, "vocabulary": 8192},' \
    '"dataloader": {"path": "text", "global_batch": 4, "micro_batch": MICRO},' \
    '"step_scheduler": {"max_steps": 3, "log_every": 1}, "distributed": {"sharding_strategy": "STRATEGY"},' \
    '"trainer": {"config": {"sample_bytes": 0, "device": "cpu", "recompute": RECOMPUTE, "offload_optimizer": OFFLOAD}}}' >template
export OMP_NUM_THREADS=1

# NAME MICRO RECOMPUTE OFFLOAD STRATEGY
run() {
    sed "s/MICRO/$2/; s/RECOMPUTE/$3/; s/OFFLOAD/$4/; s/STRATEGY/$5/" template >"$1.json"
    timeout 60 "$AUTOLAUNCH" --nproc-per-node 2 --log-dir "run-$1" -- "$gpt" --config "$1.json" >"$1.log" 2>&1 || fail "$1"
    cp "run-$1/generation-0/rank-0/stdout" "$1.out"
    # Every item within a kilobyte's rounding of its print: 0.1 of the unit, or pages of a few small buffers.
    awk '
        function bytes(number, unit) { return number * (unit == "kB" ? 1e3 : unit == "MB" ? 1e6 : 1e9) }
        / planned .* allocated$/ {
            n = split($0, f, " "); planned = bytes(f[n - 5], f[n - 4]); taken = bytes(f[n - 2], f[n - 1]); ++lines
            off = planned > taken ? planned - taken : taken - planned
            if (off > 0.02 * planned) { print "not as planned: " $0; bad = 1 }
        }
        /^  mostly / { ++mostly } /^  resident +[0-9.]+ MB / { ++resident }
        END { if (lines < 5 || mostly != 1 || resident != 1) { print lines " items, " mostly + 0 " sums"; bad = 1 } exit bad }' \
        "$1.out" >"$1.difference" || fail "$1: $(cat "$1.difference")"
}
losses() { grep -oE '^step [0-9]+/3  loss [0-9.]+  grad norm [0-9.]+' "$1.out"; }
item() { awk -v item="$2" '$0 ~ "^  " item { n = NF; print $(n - 2) * ($(n - 1) == "MB" ? 1e6 : $(n - 1) == "GB" ? 1e9 : 1e3) }' "$1.out"; }
same() { # NAME: the very losses
    [ "$(losses "$1" | wc -l)" = 3 ] && [ "$(losses "$1")" = "$(losses plain)" ] || fail "$1: $(losses "$1"), not $(losses plain)"
}
close_to() { # NAME: but for the order of sums
    paste <(losses "$1") <(losses plain) | awk '
        { off = $4 - $11; if (off < 0) off = -off; if (off > 2e-5) { print; bad = 1 } } END { exit bad || NR != 3 }' ||
        fail "$1: $(losses "$1"), not $(losses plain)"
}
less() { # NAME ITEM THAN: of the item
    awk "BEGIN { exit !($(item "$1" "$2") < $(item "$3" "$2")) }" ||
        fail "$1 has $(item "$1" "$2") of $2, $3 $(item "$3" "$2")"
}

run plain 0 0 false full_shard
run recompute 0 1 false full_shard && same recompute && less recompute activations plain
run segments 0 3 false full_shard && same segments && less segments activations plain && less recompute activations segments
run accumulate 1 0 false full_shard && close_to accumulate && less accumulate activations plain
run offload 0 0 true full_shard && same offload
grep -q '^offload_optimizer changes nothing' offload.out || fail "offload: ranks on CPUs are not told that it changes nothing"
run all 1 1 true full_shard && close_to all && less all activations accumulate && less all activations recompute
run grad_op 0 0 false shard_grad_op && close_to grad_op && less plain 'in all' grad_op
megabytes() { item "$1" 'in all' | awk '{ printf "%.1f MB", $1 / 1e6 }'; }
echo "gpt: a rank takes $(megabytes plain), with all of it $(megabytes all); under shard_grad_op $(megabytes grad_op)"
