#!/bin/bash
# `autolaunch render` at the command line, and the scripts for Slurm by hand: as slurmd starts them, without PATH. A real Slurm
# is in slurm/monitoring.sh; real Prometheus, Alertmanager and shellcheck in ../real/monitoring.sh.
. "$(dirname "$0")/lib.sh"
for target in prometheus grafana slurm; do
    says 0 "autolaunch" "$AUTOLAUNCH" render $target --output "$target"
    says 0 "(was there already)" "$AUTOLAUNCH" render $target --output "$target"
done
says 64 "one of prometheus, alertmanager, grafana, slurm" "$AUTOLAUNCH" render
says 64 "did you mean grafana?" "$AUTOLAUNCH" render grafna
says 64 "no file of this target" "$AUTOLAUNCH" render slurm nowhere.sh
says 64 "--textfile-dir does not go with render grafana" "$AUTOLAUNCH" render grafana --textfile-dir /x
says 64 "--force goes with --output DIR" "$AUTOLAUNCH" render slurm --force
says 65 "a script of root's needs a whole path" "$AUTOLAUNCH" render slurm --job-mapping-dir gpu-jobs
says 66 "nowhere.yaml" "$AUTOLAUNCH" render alertmanager --site nowhere.yaml
echo 'alerting: {channels: [{type: slack, webhook_url: "https://hooks.slack.com/services/T1/B2/s3cret"}]}' >site.yaml
says 65 "site.yaml:1: alerting.channels: webhook_url: whoever has it" "$AUTOLAUNCH" render alertmanager --site site.yaml
"$AUTOLAUNCH" render alertmanager --site site.yaml 2>&1 | grep s3cret && failed "the secret is told"
echo 'alerting: {enabled: true}' >site.yaml
says 65 "there is no alerting.channels" "$AUTOLAUNCH" render alertmanager --site site.yaml
echo 'alerting: {channels: [{type: slack, webhook_url: "${SLACK}"}]}' >site.yaml
says 0 "write the value of SLACK into that file" "$AUTOLAUNCH" render alertmanager --site site.yaml
echo changed >>slurm/slurm.conf.lines
says 73 "slurm.conf.lines already, with another content; nothing was written" "$AUTOLAUNCH" render slurm --output slurm
says 0 "slurm.conf.lines: what slurm.conf needs for them (replaced)" "$AUTOLAUNCH" render slurm --output slurm --force
says 73 "site.yaml" "$AUTOLAUNCH" render slurm --output site.yaml/below
"$AUTOLAUNCH" render grafana autolaunch-job.json >job.json || failed "one file: exit code $?"
cmp job.json grafana/autolaunch-job.json || failed "what is printed is not what is written"
"$AUTOLAUNCH" render slurm --json >out.log
json 'd["format"] == 1 and d["folder"] is None and [f["name"] for f in d["files"]][0] == "autolaunch-prolog.sh" and d["files"][0]["executable"]'

# ---- Prolog and Epilog by hand ---------------------------------------------------------------------------------------
gpus=$work/gpu-jobs text=$work/textfiles
mkdir "$text" tools
"$AUTOLAUNCH" render slurm --output scripts --job-mapping-dir "$gpus" --textfile-dir "$text" --force >/dev/null 2>&1
cat >tools/autolaunch <<END
#!/bin/sh
echo "\$*" >>$work/calls
[ ! -e $work/answers ] || { read -r code words <$work/answers; echo "\$words"; exit "\$code"; }
END
# As NVIDIA's guide to MIG shows them: the UUIDs by GPU and device, and the instances by GPU and device.
cat >tools/nvidia-smi <<'END'
#!/bin/sh
[ "${1:-}" = -L ] && cat <<LIST && exit
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)
  MIG 1g.10gb     Device  0: (UUID: MIG-a0)
  MIG 2g.20gb     Device  1: (UUID: MIG-a1)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bbbb)
  MIG 1g.10gb     Device  0: (UUID: MIG-b0)
LIST
cat <<TABLE
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                   On |
| MIG devices:                                                                            |
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|  0    9   0   0  |              16MiB /  9984MiB    | 16      0 |  1   0    1    0    1 |
|  0    3   0   1  |              32MiB / 20096MiB    | 32      0 |  2   0    2    0    2 |
|  1   13   0   0  |              16MiB /  9984MiB    | 16      0 |  1   0    1    0    1 |
| Processes:                                                                              |
|    0    9    0     4711      C   python3                                   1234MiB |
TABLE
END
chmod +x tools/*
sed -i "s|^autolaunch=.*|autolaunch=$work/tools/autolaunch|; s|^PATH=|&$work/tools:|" scripts/*.sh
script() { # CODE WHICH NAME=VALUE...: with nothing else in its environment
    local code=0
    env -i "${@:3}" /bin/sh "scripts/autolaunch-$2.sh" >out.log 2>&1 || code=$?
    [ "$code" -eq "$1" ] || failed "${*:2}: exit code $code, expected $1: $(cat out.log)"
}
mapping() { (cd "$gpus" && grep -H . [0-9]* | paste -sd' ') 2>/dev/null; }
maps() { [ "$(mapping)" = "$1" ] || failed "$2: the files say '$(mapping)', expected '$1'"; }
script 0 prolog SLURM_JOB_ID=7 SLURM_JOB_GPUS=0,2 CUDA_VISIBLE_DEVICES=0,1
maps "0:7 2:7" "a job"
script 0 prolog SLURM_JOB_ID=71 SLURM_JOB_GPUS=2 CUDA_VISIBLE_DEVICES=0
maps "0:7 2:7 2:71" "two that share a GPU"
script 0 prolog SLURM_JOB_ID=71 SLURM_JOB_GPUS=2 CUDA_VISIBLE_DEVICES=0
maps "0:7 2:7 2:71" "once more"
script 0 prolog SLURM_JOB_ID=8
maps "0:7 2:7 2:71" "one without GPUs"
script 0 prolog SLURM_JOB_ID=9 CUDA_VISIBLE_DEVICES=MIG-a1,MIG-b0 SLURM_JOB_GPUS=1,2
maps "0:7 0.3:9 1.13:9 2:7 2:71" "MIG devices"
script 0 prolog SLURM_JOB_ID=10 CUDA_VISIBLE_DEVICES=MIG-unknown SLURM_JOB_GPUS=1
contains "what is said of an unknown MIG device" out.log "dcgm-exporter is not told which GPUs are its (MIG-unknown)"
expect "other names" "" "$(find "$gpus" -type f -regextype egrep -not -regex '.*/[0-9]+(\.[0-9]+)?' -not -name .lock)"
script 0 epilog SLURM_JOB_ID=7
maps "0.3:9 1.13:9 2:71" "after the first"
grep -q gc calls && failed "data is looked through without a user"
script 0 epilog SLURM_JOB_ID=8 SLURM_JOB_UID=2001
contains "what becomes of staged data" calls "gc --epilog --apply"
script 0 epilog SLURM_JOB_ID=9
script 0 epilog SLURM_JOB_ID=71
maps "" "after all"
touch "$text"/autolaunch_7_0.prom "$text"/autolaunch_7_batch.prom "$text"/autolaunch_71_0.prom "$text"/node.prom
script 0 epilog SLURM_JOB_ID=7
expect "what is left of metrics" "autolaunch_71_0.prom node.prom" "$(ls "$text" | paste -sd' ')"
for which in prolog epilog; do
    script 0 $which
    contains "a missing job" out.log "SLURM_JOB_ID is no number"
    script 0 $which SLURM_JOB_ID='7;touch x'
    [ ! -e x ] || failed "$which runs what a job is called"
done
# A monitor that is broken drains no node, and one that is not fit is drained.
rm -rf "$gpus" && touch "$gpus"
script 0 prolog SLURM_JOB_ID=7 SLURM_JOB_GPUS=0 CUDA_VISIBLE_DEVICES=0
contains "a folder that is none" out.log "dcgm-exporter is not told"
script 0 epilog SLURM_JOB_ID=7
rm "$gpus"
echo "78 [node_problem] gpus: a GPU is lost" >answers
script 1 prolog SLURM_JOB_ID=7
contains "the reason" out.log "[node_problem] gpus: a GPU is lost"
script 1 epilog SLURM_JOB_ID=7
script 78 health
echo "71 out of memory" >answers
script 0 prolog SLURM_JOB_ID=7
contains "no verdict" out.log "the node could not be looked at (71): out of memory"
script 0 epilog SLURM_JOB_ID=7
contains "no verdict" out.log "what it left could not be looked for (71): out of memory"
rm answers calls
script 0 health
expect "what the health check does" "clean doctor --health-check --drain --skip memlock,nofile" "$(paste -sd' ' calls)"
count_failures
