#!/bin/bash
# Who is told while a job runs, and of what: by mail, Slack's webhook, Alertmanager's API, a webhook of one's own and a command, to
# servers that stand in for them (tests/real/alerts.sh has real ones). One message an incident, and one when it is over; a job that
# fails says why; a channel that is dead is a warning, and its secret nowhere; a process of the alerts that is killed comes back.
. "$(dirname "$0")/lib.sh"
here=$AUTOLAUNCH_SOURCE_DIR/tests/e2e
command -v python3 >/dev/null || skip "python3 is not installed"

python3 "$here/alert_sinks.py" "$work/told" "$work/ports" >sinks.log 2>&1 &
sinks=$!
trap 'kill $sinks 2>/dev/null; cleanup' EXIT
eventually "the servers' start" test -s ports
. ./ports

# told FILTER: what was told, of one kind
told() { python3 -c 'import json, sys
for line in open(sys.argv[1]):
    message = json.loads(line)
    if eval("(" + sys.argv[2] + ")", {"m": message}): print(json.dumps(message))' told "$1"; }
tells() { [ -s told ] && [ -n "$(told "$1")" ]; }

printf 'https://hooks.example.invalid/services/T0/B0/canary-of-the-webhook\n' >dead.url
printf 'http://127.0.0.1:%s/busy/canary-of-the-other\n' "$http_port" >slack.url
printf 'http://hooks.example.org/services/canary-in-clear\n' >clear.url
printf 'canary-of-the-pager\n' >pager.token
chmod 600 ./*.url pager.token
cat >train.py <<'END'
import sys, time
import autolaunch

step, end = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and not autolaunch.stop_requested():
    step += 1
    low = time.monotonic() > end - float(sys.argv[2])
    autolaunch.report_step(step, loss=0.5 if low else 9.5, tokens=100)
    time.sleep(0.1)
sys.exit(int(sys.argv[3]))
END
cat >channels.yaml <<END
monitoring:
  interval_seconds: 1
  channels:
    - {type: email, recipients: [ops@example.org], smtp: "smtp://127.0.0.1:$smtp_port", from: job@example.org}
    - {type: slack, webhook_file: $work/slack.url}
    - {type: alertmanager, url: "http://127.0.0.1:$http_port"}
    - {type: webhook, url: "http://127.0.0.1:$http_port/pager", token_file: $work/pager.token}
    - {type: command, command: [tee, -a, $work/by-command]}
END

# 1. It begins, it is over, and all five are told once each.
cat >run.yaml <<END
include: channels.yaml
monitoring:
  alerts:
    - {alert: high, condition: loss > 9, for: 1s, severity: critical}
END
"$AUTOLAUNCH" -n 2 -c run.yaml --log-dir over -- python3 train.py 8 0 0 >over.log 2>&1 </dev/null || fail "the job failed"
[ "$(told 'm["kind"] == "mail"' | wc -l)" = 2 ] || fail "not two mails: $(cat told)"
told 'm["kind"] == "mail" and "Subject: [critical] high: " in m["text"] and "autolaunch top " in m["text"]' | grep -q . ||
    fail "no mail that it began: $(cat told)"
told 'm["kind"] == "mail" and "In-Reply-To: " in m["text"] and "Subject: Re: [resolved] high" in m["text"]' | grep -q . ||
    fail "no mail that it is over: $(cat told)"
[ "$(told 'm.get("path", "").startswith("/busy") and m["body"]["blocks"]' | wc -l)" = 2 ] || fail "not two messages to Slack: $(cat told)"
told 'm.get("path") == "/api/v2/alerts" and m["body"][0]["labels"]["alertname"] == "high" and
    m["body"][0]["endsAt"] > m["body"][0]["startsAt"]' | grep -q . || fail "nothing to Alertmanager: $(cat told)"
[ "$(told 'm.get("path") == "/pager" and m["token"] == "Bearer canary-of-the-pager" and m["type"] == "application/json"' | wc -l)" = 2 ] ||
    fail "not two messages to the webhook: $(cat told)"
expect "lines of the command" 2 "$(wc -l <by-command)"
python3 -c 'import json; all = [json.loads(l) for l in open("by-command")]; assert [m["kind"] for m in all] == ["began", "over"], all
assert all[0]["alerts"][0]["of"][0]["value"].startswith("loss is 9.5"), all
posted = [m["body"] for m in map(json.loads, open("told")) if m.get("path") == "/pager"]
assert posted == all, posted' || fail "the command's messages are wrong"
grep -q "alerting:" over.log && fail "a healthy channel has a warning"
grep -rqs "canary" over && fail "a webhook is in the run directory"

# 2. A job that fails says so, first, and why; its exit code stays. A dead channel, and one that would go in clear, are warnings.
rm -f told by-command
cat >fails.yaml <<END
monitoring:
  interval_seconds: 1
  channels:
    - {type: command, command: [tee, -a, $work/by-command]}
    - {type: slack, name: dead, webhook_file: $work/dead.url}
    - {type: slack, name: clear, webhook_file: $work/clear.url}
    - {type: command, name: fails, command: [sh, -c, "echo no pager >&2; exit 3"]}
  alerts:
    - {alert: failed, condition: job_status == 'failed', severity: critical}
    - {alert: hot, condition: gpu_temperature > 85}
END
code=0
"$AUTOLAUNCH" -n 2 -c fails.yaml --log-dir failed -- python3 train.py 7 0 3 >failed.log 2>&1 </dev/null || code=$?
expect "the exit code of the job" 3 "$code"
expect "lines of the command" 1 "$(wc -l <by-command)"
python3 -c 'import json; m = json.loads(open("by-command").read()); assert m["subject"].startswith("[critical] failed: "), m
assert "exit" in m["cause"] and m["cause"] in m["text"], m' || fail "the message is wrong: $(cat by-command)"
contains "a channel in clear" failed.log "nobody is told by clear: the webhook's URL is neither https nor this machine's own loopback"
contains "a command that fails" failed.log "nobody is told by fails: sh ended with exit code 3: no pager"
contains "a dead channel" failed.log "nobody is told by dead: "
contains "a metric that nobody measures" failed.log "alerting: hot waits for gpu_temperature, which nothing has measured so far"
grep -rs "canary" failed.log failed && fail "a secret was shown"

# 3. Its process is killed: it comes back, is counted, and goes on with what was open.
rm -f told by-command
"$AUTOLAUNCH" -n 1 -c run.yaml --log-dir killed -- python3 train.py 16 4 0 >killed.log 2>&1 </dev/null &
job=$!
eventually "the first message" tells 'm["kind"] == "mail"'
victim=
for pid in $(pgrep -x autolaunch-tell); do
    { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -qx "E2E_MARK=$E2E_MARK" && victim=$pid
done
[ -n "$victim" ] || fail "its process was not found"
kill -9 "$victim"
wait "$job" || fail "the job failed"
contains "its return" killed.log "alerting: its process had died, and was started anew (1 of 5)"
[ "$(told 'm["kind"] == "mail" and "Subject: [critical]" in m["text"]' | wc -l)" = 1 ] || fail "it was told twice: $(cat told)"
[ "$(told 'm["kind"] == "mail" and "[resolved]" in m["text"]' | wc -l)" = 1 ] || fail "its end was not told: $(cat told)"

# 4. Wrong words are errors with their place, before anything starts.
printf 'trainer: {command: [x]}\nmonitoring:\n  alerts:\n    - {alert: a, condition: gpu_temprature > 85}\n' >wrong.yaml
says 65 "wrong.yaml:4:29: alerting.alerts[0].condition: there is no metric \"gpu_temprature\"; did you mean gpu_temperature?" \
    "$AUTOLAUNCH" validate -c wrong.yaml
count_failures
