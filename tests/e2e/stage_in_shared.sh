# The site's shared cache: filled by its owner alone, of what everybody may read; used by jobs of other users, read-only and
# held; and nothing of it believed that somebody else could have put there. In a mount namespace of its own, whose /etc is a copy.
self=$(readlink -f "$0")
. "${self%/*}/lib.sh"
. "${self%/*}/container_room.sh"

if [ "${SHARED_TEST_INSIDE:-}" != yes ]; then
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "needs root, and a mount namespace of its own"
    SHARED_TEST_INSIDE=yes unshare --mount --propagation private bash "$self"
    exit
fi
for_all_users
cp -a /etc etc && mount --bind etc /etc || fail "no /etc of its own"
mounted=/etc
unset XDG_RUNTIME_DIR
printf '%s\n' amy:x:2001:2001::/:/bin/sh mal:x:2002:2002::/:/bin/sh sam:x:2004:2004::/:/bin/sh >>/etc/passwd
printf '%s\n' amy:x:2001: mal:x:2002: sam:x:2004: >>/etc/group
for user in amy:2001 mal:2002 sam:2004; do # a job's user; one who means ill; the account of data sets
    printf '#!/bin/sh\nexec setpriv --reuid %s --regid %s --clear-groups env HOME=/ "$@"\n' "${user#*:}" "${user#*:}" >"programs/${user%:*}"
    chmod 755 "programs/${user%:*}"
done
mkdir -m 1777 runs
scratch=$work/scratch cache=$work/local/datasets
mkdir -m 1777 "$scratch" && mkdir -m 755 local
install_site() { # OWNER
    rm -rf /etc/autolaunch && mkdir -m 755 /etc/autolaunch
    printf 'storage_management: {shared_cache: %s%s, scratch_space: %s}\n' "$cache" "${1:+, shared_cache_owner: $1}" "$scratch" >/etc/autolaunch/site.yaml
    chmod 644 /etc/autolaunch/site.yaml
}
mkdir -p data/sub && chmod 755 data data/sub
head -c 3000000 /dev/urandom >data/sub/tokens.bin
echo one >data/one.txt
ln -s sub/tokens.bin data/latest
echo w >weights.bin
chmod 644 data/sub/tokens.bin data/one.txt weights.bin
spec() { # NAME LINES...
    printf '%s\n' 'storage:' '  stage_in:' "${@:2}" "monitoring: {log_path: $work/runs}" >"$1"
}
spec data.yaml "    - {from: $work/data, as: tokens}" "    - {from: $work/weights.bin, as: w}"
{ echo "trainer: {command: [/bin/sh, -c, 'cmp \$AUTOLAUNCH_DATA_TOKENS/latest $work/data/sub/tokens.bin && cat \$AUTOLAUNCH_DATA_W && echo \$AUTOLAUNCH_DATA_TOKENS >>$work/runs/places'], mpi: none}" && cat data.yaml; } >train.yaml
job() { amy timeout 60 "$AUTOLAUNCH" -c train.yaml "$@"; }
fill() { timeout 60 "$@"; } # USER autolaunch stage-in …: as that user

# ---- who names it, and who may write to it -------------------------------------------------------------------------
says 78 "names no shared cache" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
says 78 "names no storage_management.shared_cache" sam "$AUTOLAUNCH" gc --shared
{ cat train.yaml && echo "storage_management: {shared_cache: $work/mine}"; } >own.yaml
says 65 "own.yaml:7:36: storage_management.shared_cache: is the administrator's to say" "$AUTOLAUNCH" validate own.yaml
install_site sam
says 65 "is not what the administrator allows: $cache (/etc/autolaunch/site.yaml:1); a job cannot change it" "$AUTOLAUNCH" validate own.yaml
says 77 "only user 2004 may write to $cache, and this is user 2001" amy "$AUTOLAUNCH" stage-in -c data.yaml --shared
says 77 "only user 2004 may write to" "$AUTOLAUNCH" gc --shared
says 73 "storage_management.shared_cache: cannot create the folder $cache: Permission denied" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
install_site nobody-here
says 69 "this node knows no user nobody-here" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
job --log-dir runs/nobody >nobody.log 2>&1 || fail "a job where nobody knows the owner"
contains "an owner whom nobody knows" nobody.log "this node knows no user nobody-here"
rm -rf "$scratch/autolaunch-2001"
install_site sam

# ---- it is not there yet: jobs stage for themselves, without a word --------------------------------------------------
amy "$AUTOLAUNCH" plan -c train.yaml >plan.log 2>&1 || fail "plan without a cache"
grep -Eq "shared cache +$cache +storage_management.shared_cache of /etc/autolaunch/site.yaml, what sam has put there" plan.log || fail "what plan says: $(cat plan.log)"
contains "plan without a cache" plan.log "3.0 MB in 2 files · to be copied"
job --log-dir runs/before >before.log 2>&1 || fail "the job before"
grep -q "shared cache" before.log && fail "a word of a cache that is not there: $(cat before.log)"
rm -rf "$scratch/autolaunch-2001"

# ---- filled by its owner, of what everybody may read -----------------------------------------------------------------
install -d -m 755 -o 2004 -g 2004 "$cache"
chmod 640 data/one.txt
says 65 "$work/data/one.txt is not for everybody to read (mode 0640)" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
chgrp 2004 data/one.txt
says 65 "$work/data/one.txt is not for everybody to read (mode 0640)" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
chmod 604 data/one.txt # its group may not
says 65 "(mode 0604)" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
chmod 644 data/one.txt && chmod 711 data/sub
says 66 "cannot read $work/data/sub: Permission denied" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
chown 2004 data/sub
says 65 "$work/data/sub is not for everybody to read (mode 0711)" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
chown 0 data/sub && chmod 755 data/sub && mkdir -m 750 closed && chgrp 2004 closed && cp -r data closed/data
spec closed.yaml "    - {from: $work/closed/data, as: tokens}"
says 65 "$work/closed is not for everybody to read (mode 0750)" sam "$AUTOLAUNCH" stage-in -c closed.yaml --shared
if command -v setfacl >/dev/null && setfacl -m u:2002:--- data/one.txt 2>/dev/null; then
    says 65 "data/one.txt has an access list (getfacl)" sam "$AUTOLAUNCH" stage-in -c data.yaml --shared
    setfacl -b data/one.txt
fi
spec web.yaml "    - {from: 'https://example.org/a.bin', as: tokens}"
says 65 "tokens comes from a server, and in the shared cache everybody reads it" sam "$AUTOLAUNCH" stage-in -c web.yaml --shared
expect "what was refused" "" "$(ls -A "$cache/data" "$cache/parts" "$cache/sources" | grep -v :)"
says 64 "--readable-by-all goes with --shared" sam "$AUTOLAUNCH" stage-in -c data.yaml --readable-by-all
says 64 "stage-in needs a spec" sam "$AUTOLAUNCH" stage-in
fill sam "$AUTOLAUNCH" stage-in -c data.yaml --shared --log-dir runs/fill >fill.log 2>&1 || fail "filling"
contains "filling" fill.log "staged    tokens: 3.0 MB in 2 files in "
contains "filling" fill.log " · into the site's shared cache"
name=$(sed -n 1p "$(grep -l /data$ "$cache"/sources/* | head -n1)")
expect "modes" "755 711 711 700 700 755 444 444 555 555" \
    "$(stat -c %a "$cache" "$cache"/{data,sources,parts,gone} "$cache/data/$name"{,/manifest,/marks,/tree,/tree/sub} | xargs)"
expect "sources" "444 444" "$(stat -c %a "$cache"/sources/* | xargs)"
fill sam "$AUTOLAUNCH" stage-in -c data.yaml --shared --log-dir runs/fill >again.log 2>&1 || fail "filling again"
contains "filling again" again.log "on this node already, in the site's shared cache"

# ---- used by others ---------------------------------------------------------------------------------------------------
amy "$AUTOLAUNCH" plan -c train.yaml 2>&1 | grep -q "on this node already, in the site's shared cache" || fail "plan does not see it"
amy "$AUTOLAUNCH" plan --json -c train.yaml >out.log
json "d['staging']['shared_cache'] == {'folder': '$cache', 'owner': 'sam', 'fills': False}"
job --log-dir runs/one >one.log 2>&1 || fail "a job of amy's"
contains "a job of amy's" one.log "staged    tokens: 3.0 MB in 2 files · on this node already, in the site's shared cache"
contains "its event" runs/one/events.jsonl '"read_bytes":0,"was_here":true,"shared":true'
case $(tail -n1 runs/places) in "$cache/data/"*/tree) ;; *) fail "ranks were given $(tail -n1 runs/places)" ;; esac
expect "what amy has staged herself" "" "$(ls -A "$scratch/autolaunch-2001/stage/data")"
amy ls "$cache/data" >/dev/null 2>&1 && fail "others can list what is there"

# ---- a scratch that cannot be made is needed for what is missing alone -------------------------------------------------
job --log-dir runs/noscratch storage.scratch=/proc/none >noscratch.log 2>&1 || fail "a job without a scratch: $(cat noscratch.log)"
contains "a job without a scratch" noscratch.log "staged    tokens: 3.0 MB in 2 files · on this node already, in the site's shared cache"
contains "a job without a scratch" noscratch.log "; what is in the site's shared cache needs none"
sed 's/}$/, start: streaming}/' data.yaml | sed '$d' >streams.yaml && echo "monitoring: {log_path: $work/runs}" >>streams.yaml
says 0 "staged    tokens: 3.0 MB in 2 files · on this node already, in the site's shared cache" amy timeout 60 "$AUTOLAUNCH" -c streams.yaml storage.scratch=/proc/none -- true
echo missing >missing.txt && chmod 644 missing.txt && sed "s|$work/weights.bin|$work/missing.txt|" streams.yaml >missing.yaml
for from in streams missing; do sed 's/, start: streaming//' $from.yaml >all-$from.yaml; done
for from in all-missing missing; do
    says 73 "storage.stage_in: storage.scratch: " amy timeout 60 "$AUTOLAUNCH" -c $from.yaml storage.scratch=/proc/none -- true
done

# ---- in a container: read-only, also for root, whom modes do not keep out -----------------------------------------------
in_container() {
    make_root root && mkdir fakes && fake_apptainer fakes/apptainer
    bwrap --bind root / --dev-bind /dev /dev --proc /proc /bin/sh -c : 2>bwrap.log || { echo "not tried: a container: $(cat bwrap.log)" && return; }
    { cat data.yaml && echo "container: {image: $work/root, runtime: apptainer}"; } >contained.yaml
    PATH=$work/fakes:$PATH timeout 60 "$AUTOLAUNCH" -c contained.yaml --log-dir runs/contained -- /bin/sh -c 'echo "$AUTOLAUNCH_DATA_TOKENS"; cat "$AUTOLAUNCH_DATA_TOKENS/one.txt" "$AUTOLAUNCH_DATA_W"
        (echo x >"$AUTOLAUNCH_DATA_TOKENS/one.txt") 2>&1; (echo x >"$AUTOLAUNCH_DATA_TOKENS/new") 2>&1; rm -f "$AUTOLAUNCH_DATA_TOKENS/one.txt" 2>&1' >contained.log 2>&1
    contains "a job in a container" contained.log "on this node already, in the site's shared cache"
    expect "what its rank has seen" "$cache/data/$name/tree one w" "$(sed -n 1,3p runs/contained/generation-0/rank-0/stdout | xargs)"
    expect "what its rank could write: $(cat runs/contained/generation-0/rank-0/stdout)" 3 "$(grep -c 'Read-only file system' runs/contained/generation-0/rank-0/stdout)"
    expect "the file after that" one "$(cat "$cache/data/$name/tree/one.txt")"
}
if command -v bwrap >/dev/null; then in_container; else echo "not tried: a container (apt-get install bubblewrap)"; fi

# ---- held: its owner's gc leaves it --------------------------------------------------------------------------------
cat >holds.yaml <<END2
$(sed "s|command: .*], mpi|command: [/bin/sh, -c, 'touch $work/runs/now; until [ -e $work/runs/over ]; do sleep 0.05; done; cmp \$AUTOLAUNCH_DATA_TOKENS/latest $work/data/sub/tokens.bin'], mpi|" train.yaml)
END2
amy timeout 60 "$AUTOLAUNCH" -c holds.yaml --log-dir runs/holds >holds.log 2>&1 &
holder=$!
eventually "a job that holds two" test -e runs/now
sam "$AUTOLAUNCH" gc --shared --apply --older-than 0s >gc.log 2>&1 || fail "gc beside a job"
contains "gc beside a job" gc.log "removed 0 of 2"
contains "gc beside a job" gc.log "(a job uses it)"
touch runs/over
wait $holder || fail "the job beside gc"
# Its time of use is that of the manifest's last reading: what a job has used since counts as young.
touch -d '40 days ago' "$cache"/data/*
sam "$AUTOLAUNCH" gc --shared --older-than 30d >gc.log 2>&1 || fail "gc"
contains "what jobs have read lately" gc.log "would remove 0 of 2"

# ---- what others may have done to it --------------------------------------------------------------------------------
# spoiled TEXT COMMAND...: then a job stages for itself and says why.
spoiled() {
    local text=$1
    rm -rf "$scratch/autolaunch-2001" runs/spoiled
    "${@:2}"
    job --log-dir runs/spoiled >spoiled.log 2>&1 || fail "a job where $text"
    grep -qF -- "$text" spoiled.log || failed "no '$text': $(cat spoiled.log)"
    grep -Eq "staged    tokens: 3.0 MB in 2 files in [^·]*$" spoiled.log || failed "it was used although $text"
}
# meddled TEXT chown|chmod ARGUMENTS... PATH: the same, and all is as before afterwards.
meddled() {
    local path=${*: -1} was
    was=$(stat -c '%u %a' "$path")
    spoiled "$@"
    chown -h "${was% *}" "$path"
    [ -L "$path" ] || chmod "${was#* }" "$path"
}
meddled "$cache belongs to user 2002, and not to user 2004" chown 2002 "$cache"
meddled "$cache may be written by others than its owner (mode 0775)" chmod 775 "$cache"
meddled "$cache/data may be written by others" chmod 777 "$cache/data"
meddled "$cache/sources belongs to user 2002" chown 2002 "$cache/sources"
meddled "$cache/data/$name may be written by others" chmod g+w "$cache/data/$name"
meddled "manifest belongs to user 2002" chown 2002 "$cache/data/$name/manifest"
meddled "marks may be written by others" chmod 666 "$cache/data/$name/marks"
meddled "tree belongs to user 2002" chown 2002 "$cache/data/$name/tree"
meddled "one.txt belongs to user 2002" chown 2002 "$cache/data/$name/tree/one.txt"
meddled "one.txt has another size or mode" chmod 666 "$cache/data/$name/tree/one.txt"
meddled "sub may be written by others" chmod 777 "$cache/data/$name/tree/sub"
meddled "latest belongs to another user" chown -h 2002 "$cache/data/$name/tree/latest"
meddled "$work/local may be written by others than its owner (mode 0777)" chmod 777 "$work/local"
linked() { # TEXT PATH: a link in its place, to what is as it should be
    link() { mv "$1" "$work/elsewhere" && ln -s "$work/elsewhere" "$1"; }
    spoiled "$1" link "$2"
    rm "$2" && mv "$work/elsewhere" "$2"
}
linked "$cache is no folder, or a link" "$cache"
linked "open $cache/data: Not a directory" "$cache/data"
linked "open $cache/data/$name: " "$cache/data/$name"
job --log-dir runs/whole >whole.log 2>&1 || fail "a job where all is as before"
contains "all is as before" whole.log "in the site's shared cache"
hard_link() {
    rm "$cache/data/$name/tree/one.txt" && mal sh -c "umask 222; echo one >$work/runs/his" && ln "$work/runs/his" "$cache/data/$name/tree/one.txt"
}
spoiled "$cache/data/$name is not as it was staged: " hard_link

# A folder that mal plants where root's site names one, and a lock that he keeps to himself.
rm -rf "$cache" && mkdir -m 1777 open && cache=$work/open/datasets && install_site
mal mkdir -m 755 "$cache"
rm -rf "$scratch/autolaunch-2001"
job --log-dir runs/planted >planted.log 2>&1 || fail "a job beside a planted folder"
contains "a planted folder" planted.log "$cache belongs to user 2002, and not to user 0"
says 73 "$cache belongs to user 2002, and not to user 0" "$AUTOLAUNCH" stage-in -c data.yaml --shared
rmdir "$cache"
"$AUTOLAUNCH" stage-in -c data.yaml --shared --log-dir runs/root >root.log 2>&1 || fail "root fills his own"
rm -rf "$scratch/autolaunch-2001"
tree=$(dirname "$(grep -l "sub/tokens.bin$" "$cache"/data/*/manifest)")
mal flock --exclusive "$tree" sh -c "touch $work/runs/locked; until [ -e $work/runs/unlock ]; do sleep 0.05; done" &
locker=$!
eventually "a lock of mal's" test -e runs/locked
job --log-dir runs/locked.run >locked.log 2>&1 || fail "a job beside mal's lock"
contains "mal's lock" locked.log "$tree is being removed, or somebody has locked it for himself (lslocks says who)"
contains "mal's lock" locked.log "staged    tokens: 3.0 MB in 2 files in "
touch runs/unlock
wait $locker
job --log-dir runs/last >last.log 2>&1 || fail "the job after that"
contains "the job after that" last.log "in the site's shared cache"
touch -a -m -d '40 days ago' "$cache"/data/*/manifest "$cache"/data/*
"$AUTOLAUNCH" gc --shared --apply --older-than 30d >gc.log 2>&1 || fail "gc of root's"
contains "what nobody used" gc.log "removed 2 of 2"
expect "trees in the end" "" "$(ls -A "$cache/data" "$cache/sources" | grep -v :)"
count_failures
