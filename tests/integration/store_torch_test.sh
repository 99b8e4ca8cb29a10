#!/bin/bash
# PyTorch's own ranks and stores against ours. PYTHON names the interpreter (default: the system's).
set -euo pipefail
python=${PYTHON:-/usr/bin/python3}
helper=$AUTOLAUNCH_BINARY_DIR/tests/integration/store_helper
here=$(cd "$(dirname "$0")" && pwd)

if ! about=$(timeout 120 "$python" "$here/store_torch_rank.py" about 2>&1); then
    echo "skipped: no usable torch.distributed in $python: ${about##*$'\n'}"
    exit 77
fi
about=${about##*$'\n'}
work=$(mktemp -d)
children=()
cleanup() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

# 1. Ranks that join through env:// find each other in our store and reduce over gloo: one at the head, the others at the
# relays of two more nodes.
mkfifo "$work/hold"
"$helper" serve 3 <"$work/hold" >"$work/port" &
children+=($!)
exec 7>"$work/hold"
for _ in $(seq 500); do [ "$(wc -l <"$work/port")" = 3 ] && break; sleep 0.02; done
mapfile -t ports <"$work/port"
world=3
ranks=()
for ((rank = 0; rank < world; ++rank)); do
    env RANK=$rank WORLD_SIZE=$world LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$world MASTER_ADDR=127.0.0.1 MASTER_PORT="${ports[$rank]}" \
        TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_USE_AGENT_STORE=True OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo \
        timeout 120 "$python" "$here/store_torch_rank.py" join >"$work/rank$rank" 2>&1 &
    ranks+=($!)
done
failed=0
for ((rank = 0; rank < world; ++rank)); do
    wait "${ranks[$rank]}" || { failed=1; echo "rank $rank failed:"; cat "$work/rank$rank"; }
done
[ $failed = 0 ]
grep -q '^sum 6$' "$work/rank0" || { echo "wrong sum:"; cat "$work/rank0"; exit 1; }

# 2. Every operation of PyTorch's client against our server, directly and through a relay.
for port in "${ports[@]:0:2}"; do
    timeout 90 "$python" "$here/store_torch_rank.py" operations "$port"
done
exec 7>&-

# 3. Our client against the store that PyTorch serves; libuv and the older backend where there are both.
for backend in ${about#* }; do
    timeout 90 "$python" "$here/store_torch_rank.py" serve "$backend" "$helper"
done
echo "passed with torch $about"
