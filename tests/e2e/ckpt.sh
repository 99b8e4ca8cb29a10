#!/bin/bash
# `autolaunch ckpt`, as a person meets it: each subcommand, its exit codes and its JSON.
. "$(dirname "$0")/lib.sh"
sample=$AUTOLAUNCH_BINARY_DIR/tests/integration/checkpoint_sample
for save in "4 1 0" "3 2 0" "2 3 5"; do
    read -r ranks step add <<<"$save"
    TORCHELASTIC_RUN_ID=4711 "$sample" "$ranks" runs "$step" "$add" 2>sample.log || fail "no sample of $ranks ranks"
done

ckpt 0 ls runs
contains "the newest first" out.log "step-00000003"
ckpt 0 ls --json runs
json '[(c["step"], c["world_size"], c["complete"]) for c in d["checkpoints"]] == [(3, 2, True), (2, 3, True), (1, 4, True)]'
ckpt 0 show runs
contains "the newest is meant" out.log "runs/step-00000003"
contains "optimizer state" out.log "optimizer  10 tensors"
ckpt 0 show runs/step-00000001 --tensors --only bf16
contains "a tensor" out.log "BF16 [5, 7, 6]                bf16.cube"
ckpt 0 show --json runs/step-00000001
json 'd["world_size"] == 4 and len(d["tensors"]) == 19 and d["extra"] == "{\"epoch\":1}"'

ckpt 0 diff runs/step-00000001 runs/step-00000002
contains "no difference" out.log "19 tensors compared, 0 differ"
ckpt 1 diff --json runs/step-00000002 runs --only h.0.w,ids
json 'd["compared"] == 4 and d["differences"][0]["name"] == "h.0.w" and d["differences"][0]["differing"] == 744'

ckpt 0 reshard runs/step-00000001 other --ranks 6 --dtype bf16
contains "what was made" out.log "other/step-00000001"
ckpt 0 verify other
ckpt 0 show --json other
json 'd["world_size"] == 6 and {t["dtype"] for t in d["tensors"]} == {"BF16", "I64", "U8"}'
ckpt 73 reshard runs/step-00000001 other --ranks 6

ckpt 0 export runs/step-00000001 all.safetensors --all
ckpt 73 export runs/step-00000001 all.safetensors
long=$(printf 'a%.0s' {1..300})
for arguments in "export runs/step-00000001 $long.safetensors" "reshard runs/step-00000001 $long --ranks 2"; do
    ckpt 73 $arguments
    contains "a name that is too long" out.log "File name too long"
done
ckpt 66 show "$long"
contains "a name that is too long" out.log "File name too long"
ckpt 0 export runs/step-00000001 parts --all --max-file-size 10kB
[ -f parts/model.safetensors.index.json ] || fail "no index"
for source in all.safetensors parts; do
    ckpt 0 convert "$source" "from-$source" --step 1 --ranks 3
    ckpt 0 diff "from-$source" runs/step-00000001
done
ckpt 65 export runs out.safetensors --only nothing.
ckpt 65 convert runs/step-00000001 again
ckpt 69 convert "$(mkdir dcp && touch dcp/.metadata && echo dcp)" again --python /nowhere/python

ckpt 0 prune runs --keep 1 --every 2 --dry-run
contains "what it would do" out.log "would delete step-00000001"
contains "and no more" out.log "1 checkpoints"
ckpt 0 prune runs --keep 2
[ ! -e runs/step-00000001 ] && [ -e runs/step-00000002 ] || fail "prune kept or deleted the wrong ones: $(ls runs)"

# Where they come from: what was saved, and what is made of it.
ckpt 0 show --json runs/step-00000003
json 'd["lineage"]["made_by"] == "save" and d["lineage"]["parent"]["step"] == 2 and d["lineage"]["program"].endswith("/checkpoint_sample") and len(d["lineage"]["program_sha256"]) == 64'
expect "the program's digest" "$(sha256sum <"$sample" | cut -c 1-64)" "$(python3 -c 'import json; print(json.load(open("out.log"))["lineage"]["program_sha256"])')"
ckpt 0 verify runs
contains "its parent" out.log "lineage: after step 2, which is there and is that one"
ckpt 0 show other
contains "what it was made of" out.log "after step 1 of $PWD/runs/step-00000001"
ckpt 0 verify other
contains "a parent that prune has deleted" out.log "after step 1, which is not there any more"
ckpt 0 show --json from-all.safetensors
json 'd["lineage"]["made_by"] == "convert" and d["lineage"]["source"].endswith("/all.safetensors")'
expect "the source's digest" "$(sha256sum <all.safetensors | cut -c 1-64)" "$(python3 -c 'import json; print(json.load(open("out.log"))["lineage"]["source_sha256"])')"
python3 - <<'PY' || fail "an export does not say of what it is"
import json, struct
data = open("all.safetensors", "rb").read(); size = struct.unpack("<Q", data[:8])[0]
lineage = json.loads(json.loads(data[8:8 + size])["__metadata__"]["autolaunch_lineage"])
assert lineage["made_by"] == "export" and lineage["parent"]["step"] == 1 and len(lineage["parent"]["manifest_sha256"]) == 64, lineage
assert set(lineage) | set(lineage["parent"]) == {"made_by", "parent", "step", "manifest_sha256"}, lineage
PY
# One of a version that wrote none loads, and says so.
cp -r runs/step-00000003 old
python3 - <<'PY'
import re, subprocess
text = open("old/manifest.json").read(); body = text[text.index('"', 23) :]
body = re.sub(r'"lineage":.*\n', "", body, count=1)
try:
    import xxhash
    digest = xxhash.xxh3_128_hexdigest(body.encode())
except ImportError:
    digest = subprocess.run(["xxhsum", "-H2"], input=body.encode(), capture_output=True, check=False).stdout.decode()[:32] if __import__("shutil").which("xxhsum") else ""
open("old/manifest.json", "w").write('{"manifest_xxh3_128":"' + digest + body) if digest else open("no-xxhash", "w")
PY
if [ -e no-xxhash ]; then
    echo "not tried: a checkpoint without lineage; neither xxhash of Python nor xxhsum is here"
else
    ckpt 0 verify old
    contains "no lineage" out.log "lineage: no lineage"
    ckpt 0 show old
    contains "no lineage" out.log "no lineage: an older version has saved it"
fi

# Signed, and what openssl says of the signature.
if command -v openssl >/dev/null; then
    ckpt 0 keygen --signing sign.pem
    expect "modes of keys" "600 644" "$(stat -c %a sign.pem sign.pem.pub | paste -sd' ')"
    openssl pkey -in sign.pem -pubout | cmp -s - sign.pem.pub || fail "openssl has another public key"
    openssl genpkey -algorithm ed25519 -out other.pem 2>openssl.log && openssl pkey -in other.pem -pubout -out other.pub
    AUTOLAUNCH_SIGNING_KEY=$PWD/sign.pem "$sample" 3 signed 1 0 2>sample.log || fail "no signed sample: $(cat sample.log)"
    ckpt 0 verify signed --public-key sign.pem.pub
    contains "the signature" out.log "signature: signed with the key of sign.pem.pub"
    ckpt 0 verify signed
    contains "a key that nobody has named" out.log "signed with a key that it names itself"
    ckpt 1 verify signed --public-key other.pub
    contains "another's" out.log "does not have the signature of the key other.pub"
    ckpt 1 verify runs --public-key sign.pem.pub
    contains "none" out.log "has no signature"
    python3 - <<'PY' || fail "the manifest has no signature where it is documented"
text = open("signed/step-00000001/manifest.json").read(); mark = '"manifest_ed25519":"'
at = text.index(mark) + len(mark)
open("signature", "wb").write(bytes.fromhex(text[at : at + 128])); open("body", "w").write(text[at + 128 :])
PY
    openssl pkeyutl -verify -pubin -inkey sign.pem.pub -rawin -in body -sigfile signature >openssl.log 2>&1 ||
        fail "openssl does not verify the signature: $(cat openssl.log)"
    ckpt 0 reshard signed resigned --ranks 2 --signing-key other.pem
    contains "what was made" out.log "resigned/step-00000001"
    ckpt 0 verify resigned --public-key other.pub
    chmod 644 other.pem
    ckpt 65 reshard signed again-signed --ranks 2 --signing-key other.pem
    contains "a key that others may read" out.log "is open to others"
else
    echo "not tried: signatures; openssl is not installed"
fi

ckpt 0 verify runs runs/step-00000002
contains "whole" out.log "runs/step-00000002: whole: "
shard=$(ls runs/step-00000003/*.safetensors | head -1)
printf 'X' | dd of="$shard" bs=1 seek=4100 conv=notrunc status=none
ckpt 1 verify runs
contains "file, bytes and tensor" out.log "$shard does not hold what was saved: bytes 0 to "
contains "the tensor" out.log "(the header, tensor "
ckpt 1 verify --json runs/step-00000003
json 'not d[0]["whole"] and len(d[0]["damages"]) == 1'
ckpt 65 export runs/step-00000003 damaged.safetensors
expect "what a failed export left" "" "$(ls damaged.safetensors* 2>/dev/null)"
ckpt 65 reshard runs/step-00000003 damaged --ranks 2
expect "what a failed reshard left" "" "$(ls damaged)"
rm "$shard"
ckpt 1 verify runs/step-00000003
ckpt 0 ls runs
contains "what is not complete" out.log "step-00000003              not complete: "
ckpt 1 verify runs
contains "a newer one that is not complete" out.log "step-00000003: cannot open"

printf '\033[31m{"manifest_xxh3_128":"' >runs/step-00000002/manifest.json
ckpt 65 show runs/step-00000002
grep -q $'\033' out.log && fail "an escape sequence reached the terminal"

ckpt 64
ckpt 64 frob runs
contains "what there is" out.log "ls, show, verify"
ckpt 64 shwo runs
contains "what was meant" out.log "did you mean show?"
ckpt 64 ls
ckpt 64 ls runs other
ckpt 64 ls runs --keep 3
ckpt 64 prune runs
ckpt 64 prune runs --keep 0
ckpt 64 reshard runs other --ranks 0
ckpt 64 export runs x --dtype f64
ckpt 66 ls nowhere
ckpt 66 show "$shard/x"
# What cannot be read is neither absent nor damaged: here a link to a disk that is not mounted.
"$sample" 2 unread 1 0 2>sample.log && "$sample" 2 unread 2 0 2>sample.log || fail "no samples"
ln -s "$work/not-mounted/step-00000003" unread/step-00000003
ckpt 0 ls unread
contains "what cannot be read" out.log "step-00000003              cannot be read: cannot list "
ckpt 0 ls --json unread
json '[c.get("why") for c in d["checkpoints"]] == ["unreadable", None, None]'
for command in show verify "export unread x.safetensors" "reshard unread x --ranks 3"; do
    [ "$command" = verify ] && code=1 || code=71
    set -- $command
    ckpt "$code" "$1" unread "${@:3}"
    contains "$1: no older one is taken for it" out.log "a newer checkpoint than unread/step-00000002 is there and cannot be read"
done
ckpt 0 show unread/step-00000002
ckpt 0 prune unread --keep 1
contains "what stays" out.log "kept step-00000003, for it cannot be read: "
[ -L unread/step-00000003 ] && [ ! -e unread/step-00000001 ] || fail "prune kept or deleted the wrong ones: $(ls unread)"
rm unread/step-00000003
"$sample" 2 unread 4 0 2>sample.log && truncate -s -1 "$(ls unread/step-00000004/*.safetensors | head -1)"
ckpt 0 export unread older.safetensors
contains "a damaged one is passed over with a line" out.log "passed over step-00000004: "

# PyTorch's .metadata is a pickle, and a stranger's may name what is to be run.
python3 - <<'END' || fail "no pickles"
import os, pickle
class Hostile:
    def __init__(self, function, *arguments): self.what = function, arguments
    def __reduce__(self): return self.what
for name, value in {"system": Hostile(os.system, "touch ran"), "eval": Hostile(eval, "open('ran', 'w')"),
                    "nested": {"state_dict_metadata": [Hostile(os.mkdir, "ran")]},
                    "dotted": b"\x80\x04\x8c\x05torch\x8c\x08Size.mro\x93."}.items():
    os.makedirs("hostile/" + name)
    with open(f"hostile/{name}/.metadata", "wb") as file:
        file.write(value if isinstance(value, bytes) else pickle.dumps(value))
END
for module in torch pickle os; do echo "open('ran', 'w')" >"$module.py"; done # as in a stranger's folder
for name in system eval nested dotted; do
    ckpt 65 convert "hostile/$name" made
    contains "$name" out.log "hostile/$name/.metadata is not read: it names "
    contains "what to do" out.log "a pickle can run what it names"
done
[ ! -e ran ] || fail "a stranger's pickle ran"
rm torch.py pickle.py os.py

mkdir empty
ckpt 0 ls empty
ckpt 66 show empty
ckpt 66 verify empty
ckpt 0 --help
contains "help" out.log "autolaunch ckpt convert"
echo "passed"
