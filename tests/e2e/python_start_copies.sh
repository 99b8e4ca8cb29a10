#!/bin/bash
# A rank that sees its packages as copies on the node (trainer.preload_from: node) sees what a fresh interpreter sees on the shared
# file system: the probes of python_start, both ways, as root and as an ordinary user, who needs a user namespace for it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/python_start/common.sh"
if [ -z "${SLOW:-}" ]; then
    [ -r /dev/fuse ] && [ "$(id -u)" = 0 ] || skip "no /dev/fuse, or not root"
    # As conda has it: interpreter, library and packages in one prefix, all of it on the shared file system.
    mkdir -p conda/bin conda/lib conda/conda-meta slow
    cp "$(realpath $python)" conda/bin/
    cp -r "$(dirname "$($python -c 'import os; print(os.__file__)')")" conda/lib/ && rm -rf conda/lib/*/{dist-packages,test,idlelib}
    ln -sf "$(basename "$(realpath $python)")" conda/bin/python
    conda/bin/python -c 'import json, logging, multiprocessing.pool, concurrent.futures, asyncio, decimal, csv' # their .pyc files
    # Libraries so large that an import uses pieces of them, which are seen through FUSE; what is small is seen as a whole copy.
    truncate -s +2M conda/lib/python3*/lib-dynload/*.so
    chmod 711 "$work"
    $python "$probes/../../../bench/slow_fs.py" --latency 0 --mb-per-second 4000 conda slow >slow.log 2>&1 &
    server=$!
    trap 'kill $server && wait $server; cleanup' EXIT # which unmounts it
    eventually "a mount" grep -q ready slow.log
    export SLOW=$work/slow
    for_all_users
    cp -r "$probes" programs/probes && chmod -R a+rX programs
    export COPIED_PROBES=$work/programs/probes
    COPIES=root bash "$(realpath "$0")" || exit
    if ! (mknod fuse c 10 229 && chmod 666 fuse); then
        echo "skipped: an ordinary user, as no /dev/fuse can be made for him here"
    elif setpriv --reuid 12345 --regid 12345 --clear-groups unshare --user --map-current-user --mount true 2>/dev/null; then
        # On a machine that lets its users mount FUSE, as most do.
        COPIES=user unshare --mount bash -c 'mount --bind fuse /dev/fuse; exec "$@"' - setpriv --reuid 12345 --regid 12345 --clear-groups \
            env HOME=/nowhere TMPDIR=/tmp bash "$(realpath "$0")" || exit
    else
        echo "skipped: an ordinary user, who may make no user namespace here"
    fi
    grep -q "cache/files\|fuse.autolaunch" /proc/mounts && fail "a mount is left"
    exit 0
fi
echo "trainer: {preload_cache: $work/cache}" >cache.yaml
WAY=(-c cache.yaml --preload-from node)
launch() { timeout 100 "$AUTOLAUNCH" --log-dir run "${WAY[@]}" "$@" >out.log 2>err.log; }
{ echo "import _ctypes, _decimal, _hashlib, _json, _lzma, _posixshmem, _queue, mmap, resource" && cat "$COPIED_PROBES/probes.py"; } >probed.py
fresh
mkdir first
PROBE_QUICK=1 PROBE_OUT=$work/first launch --preload auto --nproc-per-node 2 -- "$SLOW/bin/python" probed.py x </dev/null || fail "exit code $? of a run that records"
contains "what is said of the first run" err.log "the next one has it handed on"
quiet() { sed -i '/trainer.preload_from: .*shared file system: every rank starts by itself/d' err.log out.log; }
launch() {
    timeout 100 "$AUTOLAUNCH" --log-dir run "${WAY[@]}" "$@" >out.log 2>err.log
    local code=$?
    [ "$2" = off ] && quiet
    return $code
}
export PROBE_QUICK=1
probes=$COPIED_PROBES same auto "" "$SLOW/bin/python" probed.py x
copies=$(sed -n 's/.*"python_preloaded".*"copies":\([0-9]*\).*/\1/p' run/events.jsonl)
[ "${copies:-0}" -ge 20 ] || fail "${copies:-no} copies were mounted: $(cat err.log)"
pieces=$(find cache/files -name '*.pieces' | wc -l)
[ "$pieces" -ge 5 ] || fail "$pieces files in pieces are on the node"
# Where it takes a user namespace: no privileges in it, no user but this one, and a copy is nobody's to write.
cat >state.py <<'PY'
import _json
import json
import os
status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
with open("/proc/self/uid_map") as map:
    users = map.read().split()[2]
try:
    os.open(json.__cached__, os.O_RDWR)
    written = "written to"
except OSError as error:
    written = os.strerror(error.errno)
print(int(status["CapEff"], 16) | int(status["CapPrm"], 16), users, os.getuid(), written)
with open("/proc/self/mountinfo") as mounts:
    served = [line.split()[4] for line in mounts if "fuse.autolaunch" in line]
seen = os.stat(_json.__file__)
assert not served or _json.__file__ in served, served
print("in pieces:", len(served))
print("of the library:", seen.st_uid, oct(seen.st_mode), seen.st_nlink, seen.st_mtime_ns)
PY
said() { sed -n "s/^$1: //p" run/generation-0/rank-0/stdout; }
for run in records copies; do
    fresh
    launch --preload auto -- "$SLOW/bin/python" state.py </dev/null || fail "exit code $? of the run that $run"
    [ $run = copies ] || facts=$(said "of the library")
done
[ "$(said "in pieces")" -ge 1 ] || fail "no file in pieces was mounted: $(cat err.log)"
[ "$COPIES" = user ] || expect "attributes of a file in pieces" "$facts" "$(said "of the library")"
if [ "$COPIES" = user ]; then
    expect "what an ordinary user's rank is" "0 1 12345 Permission denied" "$(head -1 run/generation-0/rank-0/stdout)"
    # Inside a user namespace files of others belong to 65534, also where they are read from the shared system.
    expect "attributes of a file in pieces" "${facts/#0 /65534 }" "$(said "of the library")"
else
    contains "a copy, as root" run/generation-0/rank-0/stdout "Read-only file system"
fi
echo "as $COPIES: $copies copies, $pieces of them in pieces"
