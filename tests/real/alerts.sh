#!/bin/bash
# Alerts to real servers: Debian's prometheus-alertmanager, which amtool asks, and python3-aiosmtpd with STARTTLS and a login. By hand,
# and where the packages are.
. "$(dirname "$0")/../e2e/lib.sh"
for program in prometheus-alertmanager amtool openssl; do
    command -v "$program" >/dev/null || skip "no $program: apt-get install prometheus-alertmanager openssl"
done
python3 -c 'import aiosmtpd' 2>/dev/null || skip "no aiosmtpd: apt-get install python3-aiosmtpd"
export HOME=$work
port=$((20000 + $$ % 20000))
manager=http://127.0.0.1:$port
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; cleanup' EXIT

# ---- the servers ---------------------------------------------------------------------------------------------------------
cat >alertmanager.yml <<'END'
route: {receiver: nobody, group_by: [alertname, job_id]}
receivers: [{name: nobody}]
END
amtool check-config alertmanager.yml >amtool.out || fail "Alertmanager's configuration"
prometheus-alertmanager --config.file=alertmanager.yml --storage.path=am --cluster.listen-address= \
    --web.listen-address="127.0.0.1:$port" >manager.out 2>&1 &
servers+=($!)
openssl req -x509 -newkey rsa:2048 -nodes -keyout mail.key -out mail.crt -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost 2>/dev/null || fail "no certificate"
cat >mail.py <<'END'
import asyncio, ssl, sys
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, SMTP


class Keep:
    async def handle_DATA(self, server, session, envelope):
        with open("mails", "ab") as file:
            file.write(b"== " + envelope.mail_from.encode() + b" tls=%d login=%s\n" % (
                session.ssl is not None, str(session.auth_data).encode()) + envelope.content)
        return "250 kept"


def login(server, session, envelope, mechanism, data):
    good = data.login == b"train" and data.password == b"canary-of-the-password"
    return AuthResult(success=good, auth_data=data.login.decode() if good else None, handled=False)


context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("mail.crt", "mail.key")
loop = asyncio.new_event_loop()
server = loop.run_until_complete(loop.create_server(
    lambda: SMTP(Keep(), tls_context=context, require_starttls=True, authenticator=login, auth_required=True, loop=loop),
    "127.0.0.1", int(sys.argv[1])))
open("mail.up", "w").write("up")
loop.run_forever()
END
/usr/bin/python3 mail.py $((port + 1)) >mail.out 2>&1 &
servers+=($!)
eventually "the mail server" test -s mail.up
eventually "Alertmanager" amtool --alertmanager.url="$manager" alert

# ---- a job with three alerts, of which one fires and goes, one fires at the end ---------------------------------------------
printf canary-of-the-password >password && chmod 600 password
cat >train.py <<'END'
import sys, time
import autolaunch
for step in range(int(sys.argv[1])):
    autolaunch.report_step(step, loss=9.5 if step < 50 else 0.5)
    time.sleep(0.1)
sys.exit(int(sys.argv[2]))
END
spec() { # NAME PASSWORD_FILE
    cat >"$1.yaml" <<END
monitoring:
  interval_seconds: 1
  channels:
    - {type: alertmanager, url: "$manager"}
    - {type: email, recipients: [ops@example.org], smtp: "smtp://localhost:$((port + 1))", starttls: true, user: train,
       password_file: $2, ca_file: $work/mail.crt, from: job@example.org}
  alerts:
    - {alert: high, condition: loss > 9, severity: warning}
    - {alert: failed, condition: job_status == 'failed', severity: critical}
END
}
spec good "$work/password"
alerts() { amtool --alertmanager.url="$manager" alert query -o json "$@"; }
"$AUTOLAUNCH" -n 2 -c good.yaml --log-dir good -- python3 train.py 110 3 >good.log 2>&1 </dev/null &
job=$!
fires() { alerts alertname="$1" | grep -q '"status"'; }
eventually "the alert at Alertmanager" fires high
alerts alertname=high | grep -q '"severity":"warning"' || failed "its labels: $(alerts)"
code=0
wait "$job" || code=$?
expect "the job's exit code" 3 "$code"
gone() { ! fires high; }
eventually "its end at Alertmanager" gone
fires failed || failed "the failure is not at Alertmanager: $(alerts)"
alerts alertname=failed | grep -q '"cause"' || failed "it has no cause"
expect "mails" 3 "$(grep -c '^== job@example.org tls=1 login=train' mails)"
grep -q '^In-Reply-To: <autolaunch' mails || failed "no mail answers another"
grep -q 'alerting: messages to .* travel in clear' good.log && failed "this machine's own loopback is no way in clear"

# ---- a wrong password, a certificate that nobody knows: said once, and nothing of the secret ---------------------------------
printf canary-of-another >wrong && chmod 600 wrong
spec wrong "$work/wrong"
timeout 60 "$AUTOLAUNCH" -n 1 -c wrong.yaml --log-dir wrong.run -- python3 train.py 60 0 >wrong.log 2>&1 </dev/null || failed "the job failed"
grep -q 'nobody is told by email: smtp://localhost:[0-9]* refuses the user train' wrong.log || failed "a refused login: $(cat wrong.log)"
spec strange "$work/password" && sed -i 's/ ca_file: [^,]*,//' strange.yaml
timeout 60 "$AUTOLAUNCH" -n 1 -c strange.yaml --log-dir strange.run -- python3 train.py 60 0 >strange.log 2>&1 </dev/null || failed "the job failed"
grep -q 'the certificate of smtp://localhost:[0-9]* is not trusted' strange.log || failed "an unknown certificate: $(cat strange.log)"
! grep -rqs canary good good.log wrong.run wrong.log strange.run strange.log || failed "a password was shown"
count_failures
