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

# What ckpt makes of it for others, and of PyTorch's own checkpoints.
ckpt() { "$AUTOLAUNCH" ckpt "$@" >ckpt.log 2>&1 || fail "ckpt $*"; }
with_python() { "$python" "$read_with" "$@" >read.log 2>&1 || fail "PyTorch: $*"; }
ckpt export checkpoints/step-00000004 all.safetensors --all
with_python exported all.safetensors
contains "a single file" read.log "exported: 19 tensors are equal"
ckpt export checkpoints/step-00000004 parts --max-file-size 8kB
with_python exported parts/model-*.safetensors
contains "Hugging Face's files" read.log "exported: 9 tensors are equal"
ckpt reshard checkpoints/step-00000004 five --ranks 5
with_python read "$work/five/step-00000004"
with_python save "$work/dcp"
ckpt convert dcp from_dcp --step 9 --ranks 2 --python "$python"
ckpt export from_dcp back.safetensors
with_python exported back.safetensors
contains "PyTorch's own checkpoint" read.log "exported: 5 tensors are equal"
ckpt convert dcp from_dcp_again --python "$python"
contains "what is no tensor" ckpt.log "left out 2 values that are no tensors: epoch, name"
# DCP's shards of several ranks, as we write them, are read by PyTorch too when there is no manifest.
rm checkpoints/step-00000004/manifest.json
ckpt convert checkpoints/step-00000004 joined --step 4 --python "$python"
ckpt diff joined five
contains "all of it" ckpt.log "19 tensors compared, 0 differ"
echo "passed"
