#!/bin/bash
# A ticket of a minute's life from a real KDC (Debian's krb5-kdc), and jobs that are longer: the warning before the start, the
# renewal while the job runs, into caches of two kinds, and the line where a renewal fails. By hand, and where the packages are.
. "$(dirname "$0")/../e2e/lib.sh"
export PATH=$PATH:/usr/sbin
[ -n "${AUTOLAUNCH_SLOW_TESTS:-}" ] || skip "it takes 80 s, of tickets that run out: AUTOLAUNCH_SLOW_TESTS=1 has it"
for program in krb5kdc kdb5_util kadmin.local kinit klist; do
    command -v "$program" >/dev/null || skip "no $program: apt-get install krb5-kdc krb5-admin-server krb5-user"
done
[ "$(id -u)" = 0 ] && unshare --net true 2>/dev/null || skip "needs root, and a network namespace of its own for the KDC"
if [ "${KERBEROS_TEST_INSIDE:-}" != yes ]; then
    KERBEROS_TEST_INSIDE=yes unshare --net bash "$(readlink -f "$0")"
    exit
fi
ip link set lo up
export KRB5_CONFIG=$work/krb5.conf KRB5_KDC_PROFILE=$work/kdc.conf KRB5CCNAME=FILE:$work/cc
cat >krb5.conf <<'END'
[libdefaults]
 default_realm = TEST.EXAMPLE
 dns_lookup_kdc = false
 dns_lookup_realm = false
[realms]
 TEST.EXAMPLE = {
  kdc = 127.0.0.1:10088
 }
END
cat >kdc.conf <<END
[kdcdefaults]
 kdc_listen = 127.0.0.1:10088
 kdc_tcp_listen = 127.0.0.1:10088
[realms]
 TEST.EXAMPLE = {
  database_name = $work/principal
  key_stash_file = $work/stash
  max_life = 10h
  max_renewable_life = 7d
 }
END
kdb5_util create -s -P master >kdc.out 2>&1 || fail "no database: $(cat kdc.out)"
kadmin.local -q 'addprinc -pw secret -maxrenewlife 7d ann' >>kdc.out 2>&1
kadmin.local -q 'modprinc -maxrenewlife 7d krbtgt/TEST.EXAMPLE' >>kdc.out 2>&1
krb5kdc -n >kdc.log 2>&1 &
kdc=$!
trap 'kill "$kdc" 2>/dev/null; cleanup' EXIT
ticket() { echo secret | kinit "$@" ann >kinit.out 2>&1; } # OPTION...
eventually "a ticket" ticket -l 10h
cat >job.yaml <<END
authentication: {method: kerberos}
monitoring: {log_path: $work/runs}
trainer: {command: [/bin/sh, -c, "sleep \$SECONDS_TO_RUN"]}
END
run() { SECONDS_TO_RUN=$1 timeout 120 "$AUTOLAUNCH" -c job.yaml >"$2.log" 2>&1 </dev/null || fail "the job ended with $?"; }
ends() { date -d "$(LC_ALL=C klist | awk '/krbtgt/ {print $3, $4; exit}')" +%s; }

echo "-- no ticket, one that is over, one that cannot be renewed: a warning, with the line to type"
kdestroy
run 0 none
contains "the warning" none.log "Kerberos: there is no ticket (klist: No credentials cache found"
contains "the line" none.log "kinit -l 10h -r 7d"
ticket -l 1s && sleep 2
run 0 over
contains "the warning" over.log "Kerberos: the ticket of ann@TEST.EXAMPLE is over since"
ticket -l 5m
run 0 fixed
contains "the warning" fixed.log "it cannot be renewed. kinit -l 10h -r 7d ann@TEST.EXAMPLE"
says 0 "it cannot be renewed" "$AUTOLAUNCH" plan -c job.yaml
ticket -l 5m -r 1d
run 0 good
grep -q Kerberos good.log && fail "a word on a ticket that is renewed: $(cat good.log)"
sed -i '/^authentication/d' job.yaml && kdestroy && run 0 silent
grep -q Kerberos silent.log && fail "a word on a ticket that nobody asked for: $(cat silent.log)"
sed -i '1i authentication: {method: Kerberos}' job.yaml

mkdir -m 700 caches
for cache in "FILE:$work/cc" "DIR:$work/caches"; do
    echo "-- ${cache%%:*}: a ticket of 15 s outlasts a job of 25 s, renewed where it is"
    export KRB5CCNAME=$cache
    ticket -l 15s -r 10m
    before=$(ends)
    run 25 renewed
    grep -q Kerberos renewed.log && fail "a word on a ticket that was renewed: $(cat renewed.log)"
    [ "$(ends)" -gt $((before + 10)) ] || fail "it was not renewed: it ended at $before, and ends at $(ends)"
    klist -s || fail "the ticket is over"
done

echo "-- the KDC is gone: the renewal's failure and the end are lines, and the job goes on to its own end"
ticket -l 15s -r 10m
kill "$kdc" && wait "$kdc" 2>/dev/null
run 25 failed
contains "the failure" failed.log "Kerberos: the ticket of ann@TEST.EXAMPLE could not be renewed: kinit: "
contains "the end" failed.log "is over: what is mounted with sec=krb5 cannot be reached any more"
count_failures
