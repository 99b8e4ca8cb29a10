#!/bin/bash
# `autolaunch ckpt` on checkpoints that are encrypted or have a MAC, and what python's own HMAC says of the MAC.
. "$(dirname "$0")/lib.sh"
command -v age-keygen >/dev/null || { echo "skipped: Debian's age is not installed; it makes the keys"; exit 77; }
sample=$AUTOLAUNCH_BINARY_DIR/tests/integration/checkpoint_sample
"$sample" 2 runs 1 0 2>sample.log || fail "no sample"
age-keygen -o key.txt 2>/dev/null
age-keygen -o other-key.txt 2>/dev/null
recipient=$(age-keygen -y key.txt)
ckpt 0 keygen mac.txt
expect "mode of a key file" 600 "$(stat -c %a mac.txt)"
ckpt 73 keygen mac.txt
ckpt 0 keygen other-mac.txt
cmp -s mac.txt other-mac.txt && fail "two keys are the same"
mac=(--authentication-key mac.txt)
"$AUTOLAUNCH" ckpt ls runs "${mac[@]}" >out.log 2>&1
grep -Eq "neither encryption nor S3|libcrypto" out.log && { echo "skipped: $(cat out.log)"; exit 77; }

# What has no MAC is refused, unless somebody says that it is trusted.
ckpt 65 reshard runs sealed --ranks 3 --recipient "$recipient" "${mac[@]}"
contains "the reason" out.log "has no MAC, and an authentication key was given"
ckpt 0 reshard runs sealed --ranks 3 --recipient "$recipient" "${mac[@]}" --trust-source
one=sealed/step-00000001
[ "$(ls "$one" | grep -c '\.safetensors\.age$')" = "$(($(ls "$one" | wc -l) - 1))" ] || fail "not encrypted: $(ls "$one")"

ckpt 0 ls "${mac[@]}" sealed
contains "complete" out.log "step-00000001"
ckpt 0 show "${mac[@]}" sealed
contains "that it is encrypted" out.log "encrypted  with age"
contains "that it is authentic" out.log "authentic  its MAC"
ckpt 0 show sealed --json
json 'd["encrypted"] and len(d["tensors"]) == 19'
ckpt 0 verify sealed
contains "what was not looked at" out.log "encrypted, not opened: --identity FILE does"
ckpt 0 verify "${mac[@]}" --identity key.txt sealed --json
json 'd[0]["whole"] and d[0]["not_opened"] == 0'
ckpt 0 diff runs sealed --identity-command 'cat key.txt'
ckpt 0 export sealed all.safetensors --all --identity key.txt "${mac[@]}"
ckpt 0 convert all.safetensors again --step 1 --recipient "$recipient" --authentication-key-command 'cat mac.txt'
ckpt 0 diff again sealed --identity key.txt "${mac[@]}"
ckpt 0 reshard sealed open --ranks 1 --identity key.txt --plain
ckpt 0 diff open runs
[ -e open/step-00000001/shard-00001-model-00001-of-00001.safetensors ] || fail "not in the clear: $(ls open/*)"

# Keys that are missing or wrong.
ckpt 65 export sealed out.safetensors
contains "what to do" out.log "--identity FILE"
ckpt 65 export sealed out.safetensors --identity other-key.txt
contains "the wrong key" out.log "not encrypted for any of the 1 keys given"
ckpt 65 verify sealed --identity other-key.txt
ckpt 65 reshard sealed lost --ranks 2 --identity key.txt
contains "what to do" out.log "--plain does not"
ckpt 65 show sealed --authentication-key other-mac.txt
contains "the wrong MAC" out.log "does not have the MAC of the authentication key given"
ckpt 1 verify sealed --authentication-key other-mac.txt
ckpt 0 ls sealed --authentication-key other-mac.txt
contains "it counts as not complete" out.log "not complete: "
chmod 644 mac.txt
ckpt 65 show sealed "${mac[@]}"
contains "the rule" out.log "is open to others"
chmod 600 mac.txt
ckpt 64 prune sealed --keep 1 "${mac[@]}"
ckpt 64 ls sealed --identity key.txt
ckpt 64 show sealed --plain
ckpt 65 convert all.safetensors nobody --recipient age1nobody
contains "which is none" out.log "EncryptionOptions::recipients[0]"

# The MAC, computed by others from docs/checkpoint-format.md, and the digests of the blocks; plain age opens a file.
cat >check.py <<'EOF'
import glob, hashlib, hmac, json, sys
text = open(sys.argv[1] + "/manifest.json", "rb").read()
start = b'{"manifest_xxh3_128":"' + text[22:54] + b'",\n"manifest_hmac_sha256":"'
assert text.startswith(start), text[:200]
mac, body = text[len(start):len(start) + 64], text[len(start) + 64:]
key = bytes.fromhex(open("mac.txt").read().strip())
derived = hmac.new(hmac.new(bytes(32), key, "sha256").digest(), b"autolaunch checkpoint manifest v1\x01", "sha256").digest()
assert hmac.new(derived, body, "sha256").hexdigest() == mac.decode()
for file in json.loads(text)["files"]:
    content = open(sys.argv[1] + "/" + file["name"], "rb").read()
    blocks = [content[at:at + 4194304] for at in range(0, len(content), 4194304)]
    assert [hashlib.sha256(block).hexdigest() for block in blocks] == file["sha256"]
EOF
python3 check.py "$one" || fail "python's HMAC and SHA-256 are other ones"
age -d -i key.txt "$(ls "$one"/*.age | head -1)" >plain.safetensors || fail "age opens no file"

# Damage: found without a key, and with both.
shard=$(ls "$one"/*.age | head -1)
cp "$shard" kept
printf 'XYZ' | dd of="$shard" bs=1 seek=5000 conv=notrunc status=none
ckpt 1 verify sealed
ckpt 1 verify sealed --identity key.txt "${mac[@]}"
contains "what was changed" out.log "$shard does not hold what was saved: bytes 0 to "
ckpt 65 export sealed damaged.safetensors --identity key.txt
cp kept "$shard"
ckpt 0 verify sealed --identity key.txt "${mac[@]}"
echo "passed"
