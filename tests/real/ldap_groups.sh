#!/bin/bash
# Roles by the groups of a real directory (Debian's slapd, nslcd and libnss-ldapd): who is in one of them may start, who is not may
# not; and a directory that is gone, or stands still, is neither a yes nor a no. In namespaces of its own. By hand, and where the
# packages are.
self=$(readlink -f "$0")
. "${self%/*}/../e2e/lib.sh"
export PATH=$PATH:/usr/sbin
[ -n "${AUTOLAUNCH_SLOW_TESTS:-}" ] || skip "a directory that stands still takes a minute: AUTOLAUNCH_SLOW_TESTS=1 has it"
for program in slapd slapadd nslcd; do
    command -v "$program" >/dev/null || skip "no $program: apt-get install slapd nslcd libnss-ldapd"
done
compgen -G '/usr/lib/*/libnss_ldap.so.2' >/dev/null || skip "no libnss_ldap: apt-get install libnss-ldapd"
[ "$(id -u)" = 0 ] && unshare --net --mount true 2>/dev/null || skip "needs root, and namespaces of its own"
if [ "${LDAP_TEST_INSIDE:-}" != yes ]; then
    LDAP_TEST_INSIDE=yes unshare --net --mount --propagation private bash "$self"
    exit
fi
ip link set lo up
for_all_users
unset XDG_RUNTIME_DIR
cp -a /etc etc && mount --bind etc /etc || fail "no /etc of its own"
mount -t tmpfs tmpfs /run && mkdir -m 755 /run/nslcd && chown nslcd:nslcd /run/nslcd || fail "no /run of its own"
mounted=/etc
sed -i 's/^\(passwd\|group\):.*/\1: files ldap/' /etc/nsswitch.conf

# ---- a directory: ann is in engineers beside her own group, bob in none of the roles --------------------------------
mkdir db
cat >slapd.conf <<END
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile $work/slapd.pid
database mdb
suffix dc=test
directory $work/db
END
{
    printf 'dn: dc=test\nobjectClass: dcObject\nobjectClass: organization\ndc: test\no: test\n\n'
    for user in ann:5001 bob:5002; do
        printf 'dn: uid=%s,dc=test\nobjectClass: account\nobjectClass: posixAccount\nuid: %s\ncn: %s\n' "${user%:*}" "${user%:*}" "${user%:*}"
        printf 'uidNumber: %s\ngidNumber: %s\nhomeDirectory: /\nloginShell: /bin/sh\n\n' "${user#*:}" "${user#*:}"
        printf 'dn: cn=%s,dc=test\nobjectClass: posixGroup\ncn: %s\ngidNumber: %s\n\n' "${user%:*}" "${user%:*}" "${user#*:}"
    done
    printf 'dn: cn=engineers,dc=test\nobjectClass: posixGroup\ncn: engineers\ngidNumber: 6001\nmemberUid: ann\n\n'
} >users.ldif
slapadd -f slapd.conf -l users.ldif >slapadd.log 2>&1 || fail "slapadd"
serve() { slapd -d 0 -f slapd.conf -h ldap://127.0.0.1:10389 >slapd.log 2>&1 & slapd=$!; }
serve
printf 'uid nslcd\ngid nslcd\nuri ldap://127.0.0.1:10389\nbase dc=test\nreconnect_retrytime 2\nreconnect_sleeptime 1\nbind_timelimit 2\n' >/etc/nslcd.conf
chmod 640 /etc/nslcd.conf && chgrp nslcd /etc/nslcd.conf
nslcd -d >nslcd.out 2>&1 &
nslcd=$!
trap 'kill -CONT "$slapd" 2>/dev/null; kill "$slapd" "$nslcd" 2>/dev/null; cleanup' EXIT
eventually "an answer of the directory" sh -c 'getent group engineers >/dev/null'

# Without their groups: those are asked of the directory. Not by setpriv(1), which asks it for the number.
for user in ann:5001 bob:5002; do
    printf '#!/usr/bin/python3 -I\nimport os, sys\nos.setgroups([])\nos.setgid(%s)\nos.setuid(%s)\nos.environ["HOME"] = "/"\nos.execvp(sys.argv[1], sys.argv[1:])\n' \
        "${user#*:}" "${user#*:}" >"programs/${user%:*}"
    chmod 755 "programs/${user%:*}"
done
mkdir -m 1777 runs
printf '%s\n' "trainer: {command: [/bin/true]}" "monitoring: {log_path: $work/runs}" >job.yaml
rm -rf /etc/autolaunch && mkdir -m 755 /etc/autolaunch
cat >/etc/autolaunch/site.yaml <<'END'
contact: ops@example.org
authorization:
  rbac_enabled: true
  user_groups:
    - {name: engineers, permissions: [train, checkpoint, validate]}
END
chmod 644 /etc/autolaunch/site.yaml
cp /etc/autolaunch/site.yaml roles.yaml

echo "-- the directory answers: its groups decide"
says 0 'roles: allowed: role engineers' ann "$AUTOLAUNCH" validate job.yaml
says 0 'done' ann "$AUTOLAUNCH" -c job.yaml
says 77 'bob has no role: roles are of the groups engineers' bob "$AUTOLAUNCH" -c job.yaml
says 77 'ask ops@example.org' bob "$AUTOLAUNCH" -c job.yaml

# refused WHAT USER TEXT: with 69, in 40 s, and nothing was begun
refused() {
    local began=$SECONDS
    rm -rf runs/*
    says 69 "$3" "$2" "$AUTOLAUNCH" -c job.yaml
    echo "$1: $2 was refused after $((SECONDS - began)) s"
    [ $((SECONDS - began)) -le 40 ] || failed "$1: it took $((SECONDS - began)) s"
    [ -z "$(ls -A runs)" ] || failed "$1: a job that was not allowed has a run directory"
}
back() { eventually "the directory is back" sh -c 'getent group engineers >/dev/null' && says 0 'done' ann "$AUTOLAUNCH" -c job.yaml; }

echo "-- it is gone: nobody is allowed, and nobody is told that he has no role"
kill "$slapd" && wait "$slapd" 2>/dev/null
refused gone ann 'is not known: the system'\''s database of'
refused gone bob 'ask ops@example.org'
serve && back

echo "-- it stands still: connections are accepted, and nothing comes"
kill -STOP "$slapd"
refused still ann 'is not known: the system'\''s database of'
kill -CONT "$slapd" && back

echo "-- nslcd is gone"
kill "$nslcd" && wait "$nslcd" 2>/dev/null
refused "without nslcd" ann 'is not known: the system'\''s database of'
says 0 'allowed: roles do not limit root' "$AUTOLAUNCH" validate job.yaml

echo "-- it stands still, nslcd has its own limits, and no role asks: a start takes 10 s, and says what it does not know"
sed -i '/reconnect_\|bind_timelimit/d' /etc/nslcd.conf
printf 'audit: {enabled: true, directory: %s/trail, events_to_log: [job_submission]}\n' "$work" >/etc/autolaunch/site.yaml
mkdir -m 1777 trail
nslcd -d >>nslcd.out 2>&1 &
nslcd=$!
eventually "an answer of the directory" sh -c 'getent group engineers >/dev/null'
kill -STOP "$slapd"
began=$SECONDS
says 0 "the system's database of users does not answer; its lines name user 5001" ann "$AUTOLAUNCH" -c job.yaml
echo "still, with nslcd's own limits: it took $((SECONDS - began)) s"
[ $((SECONDS - began)) -le 20 ] || failed "a start stood for $((SECONDS - began)) s"
printf 'workspace: {group: engineers}\n' >>job.yaml
says 69 'whether there is a group engineers (workspace.group) is not known' ann "$AUTOLAUNCH" -c job.yaml
says 69 'who is in the group engineers is not known' "$AUTOLAUNCH" policy render slurm limits --site roles.yaml
count_failures
