#!/bin/bash
# What `autolaunch render` writes, in the hands of those it is for: promtool, amtool and shellcheck find nothing, a real
# Prometheus scrapes, records and fires, a real Alertmanager groups, inhibits and tells, and every query of every dashboard
# has an answer. Nodes are addresses of loopback; exporters.py stands for the exporters, node_exporter itself reads a textfile.
here=$(dirname "$(readlink -f "$0")")
. "$here/../e2e/lib.sh"
for program in prometheus promtool amtool prometheus-alertmanager prometheus-node-exporter shellcheck; do
    command -v "$program" >/dev/null ||
        skip "no $program: apt-get install prometheus prometheus-alertmanager prometheus-node-exporter shellcheck"
done
servers=()
stop_servers() {
    [ ${#servers[@]} -eq 0 ] || { kill "${servers[@]}" && wait "${servers[@]}"; } 2>/dev/null
    cleanup
}
trap stop_servers EXIT
start() { "$@" >"${1##*/}.log" 2>&1 </dev/null & servers+=($!); }
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
render() { "$AUTOLAUNCH" render "$@" >out.log 2>&1 </dev/null || fail "render $*: exit code $?"; }

# ---- the files by themselves ---------------------------------------------------------------------------------------
exporters=$(free_port) prometheus=$(free_port) alertmanager=$(free_port) node_exporter=$(free_port)
cat >site.yaml <<END
monitoring:
  alerting:
    channels:
      - {type: webhook, url: "http://127.0.0.1:$exporters/hook", token_file: $work/token}
      - {type: slack, webhook_url_file: $work/slack-url, severity: critical}
END
echo not-a-secret >token && echo "http://127.0.0.1:$exporters/slack" >slack-url
for target in prometheus grafana slurm; do render $target --output $target; done
render alertmanager --site site.yaml --output alertmanager
promtool check rules prometheus/autolaunch.rules.yml >out.log 2>&1 || failed "promtool check rules: $(cat out.log)"
promtool check config prometheus/prometheus.yml >out.log 2>&1 || failed "promtool check config: $(cat out.log)"
promtool test rules prometheus/autolaunch.rules.test.yml >out.log 2>&1 || failed "promtool test rules: $(cat out.log)"
alerts=$(grep -c -- '- alert: ' prometheus/autolaunch.rules.yml)
expect "tests of alerts" "$((2 * alerts))" "$(grep -c 'alertname: ' prometheus/autolaunch.rules.test.yml)"
# Each takes a tenth of a second, and a few show that they find something.
sed -i.right '/AutolaunchJobStandsStill/,/expr/s/== 1"$/== 2"/' prometheus/autolaunch.rules.yml
awk '/^- name:/ && ++tests > 2 {exit} {print}' prometheus/autolaunch.rules.test.yml >prometheus/two.test.yml
promtool test rules prometheus/two.test.yml >out.log 2>&1 && failed "the tests find nothing in other rules"
mv prometheus/autolaunch.rules.yml.right prometheus/autolaunch.rules.yml
amtool check-config alertmanager/alertmanager.yml >out.log 2>&1 || failed "amtool: $(cat out.log)"
route() { # RECEIVER LABEL=VALUE...
    expect "who is told of ${*:2}" "$1" "$(amtool config routes test --config.file alertmanager/alertmanager.yml "${@:2}" 2>/dev/null)"
}
route administrators-critical severity=critical alertname=NodeDown
route administrators severity=warning alertname=GpuHot job_id=7
route administrators severity=info
shellcheck slurm/*.sh >out.log || failed "shellcheck: $(cat out.log)"
"$AUTOLAUNCH" lint prometheus/*.yml grafana/*.json >out.log 2>&1 || failed "lint: $(cat out.log)"
"$AUTOLAUNCH" lint --kind slurm.conf slurm/slurm.conf.lines >out.log 2>&1 || failed "lint: $(cat out.log)"

# ---- the servers: two nodes, with waits cut down to seconds ----------------------------------------------------------
sed -i -E 's/^( +for: ).*/\11s/' prometheus/autolaunch.rules.yml
sed -i -E "s/interval: \"?[0-9]+s\"?/interval: 1s/; s/localhost:9093/127.0.0.1:$alertmanager/" prometheus/prometheus.yml
sed -i -E 's/(group_wait|group_interval): .*/\1: 1s/' alertmanager/alertmanager.yml
mkdir -p feed textfiles prometheus/targets/{autolaunch,node,dcgm,slurm}
targets() { # JOB LABELS HOST:PORT...
    printf '[{"targets": [%s], "labels": {%s}}]\n' "$(printf '"%s",' "${@:3}" | sed 's/,$//')" "$2" >"prometheus/targets/$1/$(printf '%s' "$2" | cksum | cut -d' ' -f1).json"
}
targets autolaunch '"__metrics_path__": "/autolaunch"' 127.0.0.{11,12}:$exporters
targets node '"__metrics_path__": "/node"' 127.0.0.{11,12}:$exporters
targets node '' 127.0.0.1:$node_exporter
targets dcgm '"__metrics_path__": "/dcgm"' 127.0.0.{11,12}:$exporters
targets slurm '"__metrics_path__": "/slurm"' 127.0.0.1:$exporters
targets slurm '"__metrics_path__": "/vpenso"' 127.0.0.1:$exporters
cp "$here"/monitoring/* feed || fail "no samples"
start python3 "$here/exporters.py" "$exporters" feed
start prometheus-alertmanager --config.file=alertmanager/alertmanager.yml --storage.path=alertmanager/data \
    --web.listen-address=127.0.0.1:$alertmanager --cluster.listen-address=
start prometheus --config.file=prometheus/prometheus.yml --storage.tsdb.path=prometheus/data --web.listen-address=127.0.0.1:$prometheus
start prometheus-node-exporter --web.listen-address=127.0.0.1:$node_exporter --collector.disable-defaults \
    --collector.textfile --collector.textfile.directory=textfiles
ask() { # QUERY: the values of what it finds, a line each
    curl -sG "http://127.0.0.1:$prometheus/api/v1/query" --data-urlencode "query=$1" |
        python3 -c 'import json, sys; [print(r["value"][1]) for r in json.load(sys.stdin)["data"]["result"]]' 2>/dev/null
}
is() { [ "$(ask "$1")" = "$2" ]; }
echo "-- a real job, by node_exporter's textfile and by its own /metrics"
cat >train.py <<'END'
import time
import autolaunch

step = 0
while not autolaunch.stop_requested():
    step += 1
    autolaunch.report_step(step, loss=1 / step, tokens=100)
    time.sleep(0.05)
END
metrics=$(free_port)
printf '%s\n' "trainer: {command: [python3, train.py]}" \
    "monitoring: {interval_seconds: 1, textfile_directory: $work/textfiles, metrics_listen: 127.0.0.1, metrics_port: $metrics, metrics_targets_directory: $work/prometheus/targets/autolaunch}" >real.yaml
"$AUTOLAUNCH" -c real.yaml -n 2 --rdzv-id real --log-dir real >real.log 2>&1 </dev/null &
job=$!
eventually "the real job's state, from both" is 'count(autolaunch_job_state{job_id="real",state="running"} == 1)' 2
moves() { [ "$(ask 'sum(increase(autolaunch_step_duration_seconds_count{job_id="real"}[10s])) > bool 10')" = 1 ]; }
eventually "its steps" moves
eventually "what is recorded of it" is 'count(job_id:autolaunch_step_duration_seconds:p50_5m{job_id="real"})' 1
kill -TERM "$job"
wait "$job"
eventually "its end" is 'count(autolaunch_job_state{job_id="real"}) or vector(0)' 0

# Another job's textfile, read by node_exporter: it is of another node than node_exporter's address says.
grep -v 'now-\|+' feed/autolaunch | sed 's/{job_id="7"/{job_id="8",node="n8"/; s/_silent_seconds{\(.*\) 500/_silent_seconds{\1 0/' >textfiles/autolaunch_8_0.prom
eventually "a textfile's job" is 'autolaunch_job_state{job_id="8",state="running",node="n8"}' 1
eventually "all targets" is 'count(up == 1)' 9

fires() { is "count(ALERTS{alertstate='firing',$1})" 1; }
told() { grep -q "^/hook Bearer not-a-secret .*$1" feed/received 2>/dev/null; }
echo "-- a file system that does not answer on two nodes: one message for its job, and not that ranks wait for it"
for node in 127.0.0.11 127.0.0.12; do
    eventually "the alert on $node" fires "alertname='AutolaunchFileSystemSilent',job_id='7',node='$node',use='run'"
done
both_nodes() {
    grep '^/hook Bearer not-a-secret .*AutolaunchFileSystemSilent' feed/received 2>/dev/null | cut -d' ' -f4- |
        grep '"127.0.0.11"' | grep -m1 '"127.0.0.12"' >out.log
}
eventually "one message of both" both_nodes
json 'd["groupLabels"] == {"alertname": "AutolaunchFileSystemSilent", "job_id": "7"} and len(d["alerts"]) == 2'
eventually "Slack's, as it is critical" grep -q '^/slack .*AutolaunchFileSystemSilent' feed/received
eventually "the message on a hot GPU" told GpuHot
grep -q '^/slack .*GpuHot' feed/received && failed "Slack is told of what is not critical"
# state ALERTNAME NODE: of Alertmanager: active or suppressed, and how many alerts keep it so
state() {
    curl -s "http://127.0.0.1:$alertmanager/api/v2/alerts" | python3 -c '
import json, sys
for alert in json.load(sys.stdin):
    if alert["labels"]["alertname"] == sys.argv[1] and alert["labels"].get("node") == sys.argv[2]:
        print(alert["status"]["state"], len(alert["status"]["inhibitedBy"]))' "$1" "$2"
}
state_is() { [ "$(state "$1" "$2")" = "$3" ]; }
eventually "the alert of a slow rank" fires "alertname='AutolaunchRankSlow',job_id='7',node='127.0.0.12',rank='3'"
eventually "silence about the slow rank" state_is AutolaunchRankSlow 127.0.0.12 "suppressed 1"
eventually "the file system" state_is AutolaunchFileSystemSilent 127.0.0.12 "active 0"
eventually "job 8's slow rank, whose file system answers" state_is AutolaunchRankSlow n8 "active 0"

echo "-- every query of the dashboards"
eventually "two evaluations of what is recorded" is 'count(count_over_time(job_id:autolaunch_step_duration_seconds:p50_5m{job_id="7"}[5m]) > 2)' 1
python3 "$here/ask_dashboards.py" "http://127.0.0.1:$prometheus" job_id=7 node=127.0.0.12 user=ann -- grafana/*.json ||
    failed "dashboards"

echo "-- the node itself is gone: that is told, and nothing else of it"
touch feed/{node,autolaunch,dcgm}.12.down
eventually "the alert of the node" fires "alertname='NodeDown',node='127.0.0.12'"
eventually "the message of it" told NodeDown
eventually "silence about its rank" state_is AutolaunchMetricsUnreachable 127.0.0.12 "suppressed 1"
state_is NodeDown 127.0.0.12 "active 0" || failed "the node itself is $(state NodeDown 127.0.0.12)"
[ "$(state GpuHot 127.0.0.11)" = "active 0" ] || failed "a GPU of another node is $(state GpuHot 127.0.0.11)"
count_failures
