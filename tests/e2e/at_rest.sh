# A site that wants encryption at rest: a spec without recipients is refused with the line to add, and a C++ trainer whose code
# says nothing of encryption writes files that plain age opens, goes on from them, and writes none where nobody is named.
self=$(readlink -f "$0")
. "${self%/*}/lib.sh"

if [ "${AT_REST_TEST_INSIDE:-}" != yes ]; then
    command -v age-keygen >/dev/null || skip "Debian's age is not installed; it makes the keys and opens the files"
    [ -x "$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt" ] || skip "examples/gpt is not built"
    "$AUTOLAUNCH" --version | grep -qE '^CRYPTO +in' || skip "this build has no libcrypto, and cannot encrypt"
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "needs root, and a mount namespace of its own"
    AT_REST_TEST_INSIDE=yes unshare --mount --propagation private bash "$self"
    exit
fi
cp -a /etc etc && mount --bind etc /etc || fail "no /etc of its own"
mounted=/etc
export OMP_NUM_THREADS=1
rm -rf /etc/autolaunch
mkdir -m 755 /etc/autolaunch
echo 'data_security: {encryption_at_rest: true}' >/etc/autolaunch/site.yaml
for i in $(seq 60); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >text
age-keygen -o key.txt 2>/dev/null
recipient=$(age-keygen -y key.txt)
job() { # MAX_STEPS LINES-BELOW-CHECKPOINT...
    cat <<END
trainer: {command: [$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt], config: {sample_bytes: 0}}
monitoring: {log_path: $work/runs}
resource_management: {ranks_per_node: 2}
model: {layers: 1, heads: 1, width: 8, context: 8}
dataloader: {path: $work/text, global_batch: 2}
optimizer: {lr: 0.01, min_lr: 0.01}
step_scheduler: {max_steps: $1, warmup_steps: 0, log_every: 1, checkpoint_every: 2}
checkpoint:
  checkpoint_dir: $work/checkpoints
END
    printf '  %s\n' "${@:2}"
}

job 2 'enabled: true' >open.yaml
add='data_security.encryption_at_rest is true (/etc/autolaunch/site.yaml:1), and nobody is named who may open'
for command in "validate" "plan -c" "-c"; do says 65 "$add" "$AUTOLAUNCH" $command open.yaml; done
says 65 'open.yaml:9:3: checkpoint.recipients: ' "$AUTOLAUNCH" -c open.yaml
says 65 'add below checkpoint: recipients: [age1...]' "$AUTOLAUNCH" -c open.yaml
[ ! -e checkpoints ] || fail "a job that is refused has checkpoints"
job 2 'enabled: true' 'recipients: [age1nobody]' >wrong.yaml
says 65 'wrong.yaml:11:16: checkpoint.recipients[0]: ' "$AUTOLAUNCH" validate wrong.yaml

keys=("recipients: [$recipient]" "identity_file: $work/key.txt")
job 4 'enabled: true' "${keys[@]}" >sealed.yaml
says 0 "this job's are encrypted for 1" "$AUTOLAUNCH" validate sealed.yaml
says 0 "AUTOLAUNCH_CHECKPOINT_RECIPIENTS" "$AUTOLAUNCH" plan -c sealed.yaml
says 0 'done' "$AUTOLAUNCH" -c sealed.yaml
[ -z "$(find checkpoints -name '*.safetensors')" ] || fail "in the clear: $(find checkpoints -name '*.safetensors')"
opened=0
for file in checkpoints/step-*/*.age; do
    age -d -i key.txt "$file" >plain && grep -aq '"dtype"' plain || fail "age does not open $file"
    opened=$((opened + 1))
done
[ "$opened" -ge 2 ] || fail "$opened encrypted files"
job 6 'enabled: true' "${keys[@]}" >more.yaml
says 0 'resumed from step 4' "$AUTOLAUNCH" -c more.yaml

# One key less, and none of it can be read any more.
rm key.txt
age-keygen -o another.txt 2>/dev/null
for file in checkpoints/step-*/*.age; do
    age -d -i another.txt "$file" >/dev/null 2>&1 && fail "another key opens $file"
done

# A spec that does not say that its trainer saves: the library refuses.
job 2 >silent.yaml
sed -i '/checkpoint_dir/d; s/^checkpoint:$/checkpoint: {enabled: false}/; s|^trainer: .*|trainer: {command: [/bin/sh, -c, "exec '"$AUTOLAUNCH_BINARY_DIR"'/examples/gpt/gpt --config '"$work"'/own.json"]}|' silent.yaml
cat >own.json <<END
{"model": {"layers": 1, "heads": 1, "width": 8, "context": 8}, "dataloader": {"path": "$work/text", "global_batch": 2},
 "optimizer": {"lr": 0.01, "min_lr": 0.01}, "step_scheduler": {"max_steps": 2, "warmup_steps": 0, "checkpoint_every": 2},
 "checkpoint": {"enabled": true, "checkpoint_dir": "$work/open"}, "trainer": {"config": {"sample_bytes": 0}}}
END
says 1 'checkpoints must be encrypted here' "$AUTOLAUNCH" -c silent.yaml
[ -z "$(find open -type f 2>/dev/null)" ] || fail "written in the clear: $(find open -type f)"
count_failures
