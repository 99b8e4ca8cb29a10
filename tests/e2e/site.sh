# The administrator's file: who may have written it, what a job makes of it, whom its roles let start, as the users that
# they are about. In a mount namespace of its own, whose /etc is a copy: with users, groups and a file of this test's own.
self=$(readlink -f "$0")
. "${self%/*}/lib.sh"

if [ "${SITE_TEST_INSIDE:-}" != yes ]; then
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "needs root, and a mount namespace of its own"
    SITE_TEST_INSIDE=yes unshare --mount --propagation private bash "$self"
    exit
fi
for_all_users
site=/etc/autolaunch/site.yaml samples=$AUTOLAUNCH_SOURCE_DIR/tests/data/site
cp -a /etc etc && mount --bind etc /etc || fail "no /etc of its own"
mounted=/etc
unset XDG_RUNTIME_DIR
printf '%s\n' amy:x:2001:2001::/:/bin/sh ben:x:2002:2002::/:/bin/sh dan:x:2003:2003::/:/bin/sh >>/etc/passwd
printf '%s\n' amy:x:2001: ben:x:2002: dan:x:2003: engineers:x:3001:amy,ben students:x:3002:ben readers:x:3003:dan >>/etc/group
# amy COMMAND... and so on: as that user, without his groups, which are asked of the system's databases and not of the process
for user in amy:2001 ben:2002 dan:2003; do # engineers; engineers and students; readers
    printf '#!/bin/sh\nexec setpriv --reuid %s --regid %s --clear-groups env HOME=/ "$@"\n' "${user#*:}" "${user#*:}" >"programs/${user%:*}"
    chmod 755 "programs/${user%:*}"
done
mkdir -m 1777 runs
job() { printf '%s\n' "trainer: {command: [/bin/true]}" "monitoring: {log_path: $work/runs}" "$@"; }
install_site() { # FILE: as it should be
    rm -rf /etc/autolaunch
    mkdir -m 755 /etc/autolaunch && install -m 644 -o 0 -g 0 "$1" "$site"
}
job >job.yaml

# ---- no file -------------------------------------------------------------------------------------------------------
says 0 'job.yaml: valid' amy "$AUTOLAUNCH" validate job.yaml
says 66 'there is no /etc/autolaunch/site.yaml' amy "$AUTOLAUNCH" policy show
amy "$AUTOLAUNCH" plan -c job.yaml | grep -q 'what the site says' && failed "plan tells of a file that is not there"

# ---- who may have written it ---------------------------------------------------------------------------------------
# refused TEXT: by what reads it, whoever reads it
refused() {
    says 78 "$1" amy "$AUTOLAUNCH" validate job.yaml
    says 78 "$1" amy "$AUTOLAUNCH" -c job.yaml
    says 78 "$1" amy "$AUTOLAUNCH" policy show
}
echo 'audit: {enabled: true}' >small.yaml
install_site small.yaml && says 0 'audit.enabled' amy "$AUTOLAUNCH" validate job.yaml
chown 2001 "$site" && refused "$site belongs to user 2001, not to root"
install_site small.yaml && chmod 664 "$site" && refused "$site may be written by others than root (mode 0664)"
install_site small.yaml && chmod 646 "$site" && refused "(mode 0646)"
install_site small.yaml && chown 2001 /etc/autolaunch && refused "/etc/autolaunch belongs to user 2001"
install_site small.yaml && chmod 777 /etc/autolaunch && refused "/etc/autolaunch may be written by others than root (mode 0777)"
install_site small.yaml && chmod 775 /etc && refused "/etc may be written by others than root"
chmod 755 /etc
install_site small.yaml && mv "$site" /etc/elsewhere.yaml && ln -s /etc/elsewhere.yaml "$site" && refused "$site is a link"
rm -rf /etc/autolaunch && install -d -m 755 /etc/real && install -m 644 small.yaml /etc/real/site.yaml &&
    ln -s real /etc/autolaunch && refused "/etc/autolaunch is a link"
install_site small.yaml && rm "$site" && mkfifo -m 644 "$site" && refused "$site is a pipe"
install_site small.yaml && chmod 600 "$site" && refused "$site cannot be read: Permission denied"
install_site small.yaml && chmod 700 /etc/autolaunch && refused "$site cannot be read: Permission denied"
echo 'audit: {enabled: maybe}' >wrong.yaml && install_site wrong.yaml &&
    refused "$site:1:18: audit.enabled: expected true or false; found \"maybe\""
printf '\377' >wrong.yaml && install_site wrong.yaml && refused "$site:1:1"
# In a namespace of a user's own nothing belongs to root that can be seen: a file does not count there, and none is none.
if amy unshare -Ur true 2>/dev/null; then
    says 78 "belongs to user 65534, not to root" amy unshare -Ur "$AUTOLAUNCH" validate job.yaml
    install_site small.yaml && rm "$site"
    says 0 'job.yaml: valid' amy unshare -Ur "$AUTOLAUNCH" validate job.yaml
    rmdir /etc/autolaunch
    says 0 'job.yaml: valid' amy unshare -Ur "$AUTOLAUNCH" validate job.yaml
fi
# Absent is only what nobody has begun.
install_site small.yaml && rm "$site" && chmod 777 /etc/autolaunch && refused "/etc/autolaunch may be written by others"
rm -rf /etc/autolaunch && ln -s nowhere /etc/autolaunch && refused "/etc/autolaunch is a link"
install_site small.yaml && rm "$site" && ln -s nowhere "$site" && refused "$site is a link"

# ---- files as people have them, whole or as sections of a job ------------------------------------------------------
{ echo 'contact: ops@example.org' && cat "$samples/security.yaml" "$samples/monitoring.yaml"; } >both.yaml
install_site both.yaml
says 0 "data_security.audit_logging" "$AUTOLAUNCH" policy show
says 0 "not acted on   the audit trail has no levels" "$AUTOLAUNCH" policy show
"$AUTOLAUNCH" policy show --json >out.log || failed "policy show --json"
json 'd["site"]["file"] == "/etc/autolaunch/site.yaml"'
json '{k["enforced_by"] for k in d["site"]["keys"]} == {"Slurm", "the kernel", "autolaunch", "nobody"}'
json 'all(k["file"] == "/etc/autolaunch/site.yaml" and k["line"] > 1 and k["why"] for k in d["site"]["keys"])'
json '[k["value"] for k in d["site"]["keys"] if k["key"] == "authorization.rbac_enabled"] == ["true", "true"]'
says 0 'authorization.rbac_enabled                       true ' "$AUTOLAUNCH" policy show
line=$(grep -n 'max_gpus: 8' "$site" | cut -d: -f1)
amy "$AUTOLAUNCH" plan --json -c job.yaml >out.log || failed "plan --json"
json "[k for k in d['site']['keys'] if k['key'] == 'authorization.user_groups.engineers.max_gpus'][0]['line'] == $line"
says 0 "$site:$line" amy "$AUTOLAUNCH" plan -c job.yaml
rm "$site"
job "include: [$samples/security.yaml, $samples/monitoring.yaml]" >included.yaml
sed -i '/log_path/d' included.yaml
says 0 "$samples/security.yaml:" "$AUTOLAUNCH" validate included.yaml
says 0 'this version does not act on audit.log_level' \
    "$AUTOLAUNCH" -c included.yaml --log-dir "$work/runs/included"
grep -q SITE_TEST_WEBHOOK_URL "$work/runs/included/plan.json" && failed "the plan shows a webhook"

# ---- a job tightens, and never loosens -----------------------------------------------------------------------------
install_site both.yaml
job 'audit: {log_retention_days: 365}' >tighter.yaml
amy "$AUTOLAUNCH" validate --json tighter.yaml >out.log || failed "a tighter job is refused: $(cat out.log)"
json "[(k['value'], k['file'], k['line']) for k in d['site']['keys'] if k['key'] == 'audit.log_retention_days'] == [('365', 'tighter.yaml', 3)]"
job 'security: {data_security: {encryption_in_transit: false}}' >looser.yaml
looser="looser.yaml:3:51: data_security.encryption_in_transit: false is not what the administrator allows: true ($site:$(
    grep -n encryption_in_transit "$site" | cut -d: -f1))"
for command in "validate" "plan -c" "-c"; do says 65 "$looser" amy "$AUTOLAUNCH" $command looser.yaml; done
job 'rbac: {roles: {mine: {max_gpus: 100}}}' >own_role.yaml
says 65 'a job may make roles smaller, not add any' amy "$AUTOLAUNCH" -c own_role.yaml

# ---- digests of images ---------------------------------------------------------------------------------------------
echo 'container: {require_digest: true}' >digest.yaml && install_site digest.yaml
job 'container: {image: a:latest, runtime: podman}' >image.yaml
for command in validate "plan -c" -c; do
    says 65 "image.yaml:3:20: container.image: container.require_digest is true ($site:1), and the image has no digest" \
        amy "$AUTOLAUNCH" $command image.yaml
done
digest=sha256:$(printf '%064d' 0)
job "container: {image: a:latest, digest: $digest}" >pinned.yaml && says 0 'pinned.yaml: valid' amy "$AUTOLAUNCH" validate pinned.yaml
job "container: {image: \"a@$digest\"}" >pinned.yaml && says 0 'pinned.yaml: valid' amy "$AUTOLAUNCH" validate pinned.yaml
job 'container: {require_digest: false}' >looser.yaml
says 65 "looser.yaml:3:29: container.require_digest: false is not what the administrator allows: true ($site:1)" \
    amy "$AUTOLAUNCH" validate looser.yaml
echo 'data_security: {audit_logging: false}' >none.yaml && install_site none.yaml
job 'container: {image: a:latest, require_digest: true}' >image.yaml # a job's own word is as good
says 65 "container.require_digest is true (image.yaml:3)" amy "$AUTOLAUNCH" validate image.yaml

# ---- data_isolation ------------------------------------------------------------------------------------------------
# isolated UMASK:FOLDER:FILE...: modes of a run and of the checkpoint that its rank saves. Whoever may read them least counts.
cp "$AUTOLAUNCH_BINARY_DIR/tests/integration/checkpoint_sample" programs/
isolated() {
    local case mask folder file
    for case in "$@"; do
        IFS=: read -r mask folder file <<<"$case"
        rm -rf runs/isolated runs/saved
        amy bash -c "umask $mask"'; timeout 60 "$AUTOLAUNCH" --nproc-per-node 1 --log-dir "$0/runs/isolated" -c "$0/isolated.yaml"' \
            "$work" >out.log 2>&1 </dev/null || failed "isolated, umask $mask: $(cat out.log)"
        [ "$(stat -c %a runs/isolated{,/generation-0/rank-0} runs/saved{,/step-00000001} | tr '\n' ' ')" = "$folder $folder $folder $folder " ] &&
            [ "$(stat -c %a runs/isolated/{events.jsonl,generation-0/rank-0/stdout} runs/saved/step-00000001/manifest.json | tr '\n' ' ')" = "$file $file $file " ] ||
            failed "umask $mask: $(find runs/isolated runs/saved -printf '%m %p\n')"
        ! ben cat runs/isolated/events.jsonl runs/saved/step-00000001/manifest.json >/dev/null 2>&1 || failed "ben reads what is amy's"
    done
}
trains() { # LINE...: a job that saves a checkpoint
    printf '%s\n' "trainer: {command: [$work/programs/checkpoint_sample, 2, $work/runs/saved, 1, 0]}" "$@" >isolated.yaml
}
isolation() { echo "data_security: {data_isolation: $1}" >isolation.yaml && install_site isolation.yaml; }
isolation private && trains && isolated 000:700:600 022:700:600 077:700:600
isolation group && trains && isolated 000:750:640 077:700:600
isolation true && trains && isolated 022:750:640
trains 'workspace: {mode: 0700}' && isolated 022:700:600
trains 'security: {data_security: {data_isolation: private}}' && isolated 022:700:600
trains 'workspace: {mode: 0770}'
for command in validate "plan -c" -c; do
    says 65 "workspace.mode: 0770 lets in more than data_security.data_isolation: true ($site:1) does: 0750 at most" \
        amy "$AUTOLAUNCH" $command isolated.yaml
done
isolation private && trains 'workspace: {mode: 0750}'
says 65 "0750 lets in more than data_security.data_isolation: private ($site:1) does: 0700 at most" amy "$AUTOLAUNCH" -c isolated.yaml
for looser in false group; do
    trains "security: {data_security: {data_isolation: $looser}}"
    says 65 "isolated.yaml:2:44: data_security.data_isolation: $looser is not what the administrator allows: private ($site:1)" \
        amy "$AUTOLAUNCH" -c isolated.yaml
done
# A folder that was there and lets in more; a checkpoint in a folder that lets in more has one of its own in it.
amy mkdir -m 755 runs/wide && trains
says 73 'chmod 0700' amy "$AUTOLAUNCH" -c isolated.yaml --log-dir "$work/runs/wide"
[ -z "$(ls runs/wide)" ] || failed "a run began in a folder that lets in more: $(ls runs/wide)"
rm -rf runs/saved && amy mkdir -m 755 runs/saved
says 0 'done' amy "$AUTOLAUNCH" -c isolated.yaml --nproc-per-node 1 --log-dir "$work/runs/narrow"
[ "$(stat -c %a runs/saved/step-00000001)" = 700 ] || failed "a checkpoint below it: $(find runs/saved -printf '%m %p\n')"

# ---- roles ---------------------------------------------------------------------------------------------------------
install_site both.yaml
asking() { job "slurm_config: {nodes: $1, gpus_per_node: $2, time_limit: \"$3\"}" >asks.yaml; }
asking 1 8 24:00:00 && says 0 'roles: allowed: role engineers' amy "$AUTOLAUNCH" validate asks.yaml
asking 2 8 1:00:00 && says 77 "16 GPUs (2 nodes x 8) are more than max_gpus 8 of the role engineers ($site:$line)" \
    amy "$AUTOLAUNCH" validate asks.yaml
says 77 'ask for 8 GPUs at most; for more, ask ops@example.org' amy "$AUTOLAUNCH" validate asks.yaml
says 77 "16 GPUs (2 nodes x 8) are more than max_gpus 8 of the role engineers ($site:$line)" amy "$AUTOLAUNCH" submit -c asks.yaml --dry-run
asking 1 8 24:00:01 && says 77 'a time limit of 1-00:00:01 is longer than max_time 24h' amy "$AUTOLAUNCH" validate asks.yaml
asking 1 5 1:00:00 && says 0 'roles: allowed: role engineers' ben "$AUTOLAUNCH" validate asks.yaml
says 0 'ben has 2 roles; the widest that allows this job counts' ben "$AUTOLAUNCH" validate asks.yaml
says 77 'dan has no role: roles are of the groups engineers, students' dan "$AUTOLAUNCH" validate asks.yaml
says 0 'allowed: roles do not limit root' "$AUTOLAUNCH" validate asks.yaml
# A plan of machines with eight GPUs each, and a start: who has no role, and what a role has no permission for.
dgx=$AUTOLAUNCH_SOURCE_DIR/tests/data/plan/dgx/machine.xml
says 0 'roles: allowed: role engineers' amy "$AUTOLAUNCH" plan --topology "$dgx" -c job.yaml
says 77 'forbidden: 16 GPUs (2 nodes x 8)' amy "$AUTOLAUNCH" plan --topology "$dgx" --nodes 2 -c job.yaml
says 0 'max_time' amy "$AUTOLAUNCH" -c job.yaml
says 77 'dan has no role' dan "$AUTOLAUNCH" -c job.yaml
says 77 'dan has no role' dan "$AUTOLAUNCH" --log-dir "$work/runs/dan" /bin/true
[ ! -e runs/dan ] || failed "a job that is forbidden has a run directory"
job 'authorization: {action: export}' >export.yaml
says 77 'the role engineers has no permission to export: it has [train, validate, checkpoint]' amy "$AUTOLAUNCH" -c export.yaml
says 77 'no permission to export' amy "$AUTOLAUNCH" ckpt export runs model.safetensors
# What makes a checkpoint needs that permission; what takes its encryption away is an export.
says 66 'nowhere' amy "$AUTOLAUNCH" ckpt convert nowhere made
says 66 'nowhere' amy "$AUTOLAUNCH" ckpt reshard nowhere made --ranks 2
says 77 'no permission to export' amy "$AUTOLAUNCH" ckpt reshard nowhere made --ranks 2 --plain
says 77 'dan has no role' dan "$AUTOLAUNCH" ckpt convert nowhere made
sed -i 's/, "checkpoint"\]/]/' "$site"
for command in "convert nowhere made" "reshard nowhere made --ranks 2"; do
    says 77 'the role engineers has no permission to checkpoint' amy "$AUTOLAUNCH" ckpt $command
done
sed -i 's/- name: "students"/- name: "phantoms"/' both.yaml && install_site both.yaml
says 0 'the role phantoms (' amy "$AUTOLAUNCH" validate job.yaml
sed -i 's/rbac_enabled: true/rbac_enabled: false/' both.yaml && install_site both.yaml
says 0 'done' dan "$AUTOLAUNCH" -c job.yaml

# ---- policy --------------------------------------------------------------------------------------------------------
sed -i 's/rbac_enabled: false/rbac_enabled: true/; s/phantoms/students/' both.yaml && install_site both.yaml
says 0 'limits/sacctmgr.sh' "$AUTOLAUNCH" policy render slurm limits
sh -n limits/sacctmgr.sh || failed "sacctmgr.sh is no shell script"
contains "the associations" limits/sacctmgr.sh "sacctmgr -i add user ben account=engineers"
contains "the associations" limits/sacctmgr.sh "sacctmgr -i add user ben account=students"
says 69 'scontrol show config gave no answer' env PATH=/nowhere "$AUTOLAUNCH" policy diff
says 66 'No such file' "$AUTOLAUNCH" policy show --site nowhere.yaml
says 64 'one of show, render slurm DIR, render nftables DIR, diff' "$AUTOLAUNCH" policy list
echo 'rbac: {roles: {"a;reboot": {}}}' >draft.yaml
says 65 'Slurm has no account of the name' "$AUTOLAUNCH" policy render slurm limits --site draft.yaml
says 0 'a draft: where it is, it would not count' "$AUTOLAUNCH" policy show --site draft.yaml
count_failures
