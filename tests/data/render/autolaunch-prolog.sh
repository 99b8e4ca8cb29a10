#!/bin/sh
# Slurm's Prolog for autolaunch, made by autolaunch render slurm: it tells dcgm-exporter whose the GPUs are, and gives no
# job to a node that is not fit for one. slurmd runs it as root before a job's first step on a node and drains the node
# where it does not exit with 0, so it calls nothing of Slurm's, has a limit on all that it waits for, and fails for an
# unfit node alone.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022
autolaunch=/usr/bin/autolaunch
gpu_jobs=/run/autolaunch/gpu-jobs # DCGM_HPC_JOB_MAPPING_DIR of dcgm-exporter
check=yes # no: leave the look at the node to HealthCheckProgram

say() { # to slurmd's log, and to the node's
    echo "$0: $*" >&2
    logger -t "${0##*/}" -- "$*" 2>/dev/null || :
}

job=${SLURM_JOB_ID:-}
case $job in
'' | *[!0-9]*)
    say "SLURM_JOB_ID is no number: '$job'; nothing is done"
    exit 0
    ;;
esac

# GPU.INSTANCE of each MIG device in CUDA_VISIBLE_DEVICES: -L has their UUIDs by GPU and device, the table the instances.
mig_instances() {
    { timeout 10 nvidia-smi -L && timeout 10 nvidia-smi; } | awk -v wanted="$CUDA_VISIBLE_DEVICES" '
        BEGIN { n = split(wanted, uuids, ","); for (i = 1; i <= n; i++) ours[uuids[i]] = 1 }
        /^GPU [0-9]+:/ { gpu = $2 + 0 }
        /^ +MIG .*\(UUID: MIG-/ {
            device = $0; sub(/^.*Device +/, "", device); sub(/:.*/, "", device)
            uuid = $0; sub(/^.*UUID: /, "", uuid); sub(/\).*/, "", uuid)
            at[gpu, device + 0] = uuid
        }
        /^\| +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +\|/ {
            if (at[$2 + 0, $5 + 0] in ours) print $2 "." $3
        }'
}
# A file a GPU, a line a job that uses it. dcgm-exporter takes files whose names are numbers, so none of those is half-written.
map_gpu() { # GPU or GPU.INSTANCE
    case $1 in *[!0-9.]*) return 1 ;; esac
    {
        [ ! -e "$gpu_jobs/$1" ] || grep -vx -e "$job" "$gpu_jobs/$1"
        echo "$job"
    } >"$gpu_jobs/.$1.tmp" && mv -f "$gpu_jobs/.$1.tmp" "$gpu_jobs/$1"
}
map_gpus() {
    case ${CUDA_VISIBLE_DEVICES:-} in
    *MIG-*) gpus=$(mig_instances) ;;
    *) gpus=$(echo "${SLURM_JOB_GPUS:-}" | tr , ' ') ;;
    esac
    [ -n "$gpus" ] || [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || return 1
    [ -n "$gpus" ] || return 0
    mkdir -p "$gpu_jobs" || return 1
    (
        flock -w 5 9 || exit 1
        for gpu in $gpus; do
            map_gpu "$gpu" || exit 1
        done
    ) 9>"$gpu_jobs/.lock"
}

map_gpus || say "job $job: dcgm-exporter is not told which GPUs are its (${CUDA_VISIBLE_DEVICES:-none})"

if [ "$check" = yes ] && [ -x "$autolaunch" ]; then
    reason=$(timeout -k 2 30 "$autolaunch" doctor --health-check --skip memlock,nofile 2>&1)
    code=$?
    if [ "$code" -eq 78 ]; then
        say "$reason"
        exit 1
    fi
    [ "$code" -eq 0 ] || say "job $job: the node could not be looked at ($code): $reason"
fi
exit 0
