#!/bin/bash
# A checkpoint that four ranks saved from a model cut by full_shard, read by PyTorch's distributed checkpoint and by the
# safetensors package. PYTHON names the interpreter (default: the system's).
. "$(dirname "$0")/lib.sh"

python=${PYTHON:-/usr/bin/python3}
read_with=$AUTOLAUNCH_SOURCE_DIR/tests/e2e/checkpoint_torch.py
if ! about=$("$python" "$read_with" about 2>&1); then
    echo "skipped: no torch.distributed.checkpoint with safetensors in $python: ${about##*$'\n'}"
    exit 77
fi
sample=$AUTOLAUNCH_BINARY_DIR/tests/integration/checkpoint_sample
for ranks in 4 1 3; do
    "$sample" "$ranks" "$work/checkpoints" "$ranks" 2>sample.log || fail "$ranks ranks did not save"
    "$python" "$read_with" read "$work/checkpoints/step-0000000$ranks" >read.log 2>&1 || fail "PyTorch $about did not read it"
    echo "$ranks ranks, PyTorch $about:"
    grep -E '^(DCP|safetensors):' read.log
    [ "$(grep -cE '^(DCP|safetensors):' read.log)" = 2 ] || fail "not everything was read"
done
echo "passed"
