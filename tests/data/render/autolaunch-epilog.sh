#!/bin/sh
# Slurm's Epilog for autolaunch, made by autolaunch render slurm: it takes away what a job may have left. slurmd runs it as
# root when the job is over on a node and drains the node where it does not exit with 0, so it calls nothing of Slurm's,
# has a limit on all that it waits for, and fails where something of the job cannot be ended.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022
autolaunch=/usr/bin/autolaunch
gpu_jobs=/run/autolaunch/gpu-jobs # DCGM_HPC_JOB_MAPPING_DIR of dcgm-exporter
textfiles=/var/lib/prometheus/node-exporter # node_exporter's --collector.textfile.directory

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

# The job's line goes, and a file that has no other.
unmap_gpus() {
    [ -d "$gpu_jobs" ] || return 0
    (
        flock -w 5 9 || exit 1
        for file in "$gpu_jobs"/[0-9]*; do
            new=$gpu_jobs/.${file##*/}.tmp
            if ! grep -qsx -e "$job" "$file"; then
                continue
            elif grep -vx -e "$job" "$file" >"$new"; then
                mv -f "$new" "$file" || exit 1
            else
                rm -f "$new" "$file" || exit 1
            fi
        done
    ) 9>"$gpu_jobs/.lock"
}

unmap_gpus || say "job $job: dcgm-exporter may go on showing GPUs as its: look into $gpu_jobs"

# What an agent that was killed has left: its last numbers, which node_exporter would show for ever.
rm -f "$textfiles/autolaunch_${job}_"*.prom "$textfiles/.autolaunch_${job}_"* ||
    say "job $job: its metrics cannot be removed from $textfiles"

if [ -x "$autolaunch" ]; then
    left=$(timeout -k 2 60 "$autolaunch" clean --job "$job" 2>&1)
    code=$?
    if [ "$code" -eq 78 ]; then
        say "[node_problem] job $job: $left"
        exit 1
    fi
    [ "$code" -eq 0 ] || say "job $job: what it left could not be looked for ($code): $left"
fi

# Data of the job's user that was staged here and that no job has used for long, as that user. What does not go now goes later.
if [ -x "$autolaunch" ] && [ "${SLURM_JOB_UID:-0}" != 0 ]; then
    said=$(timeout -k 2 30 "$autolaunch" gc --epilog --apply 2>&1) || say "job $job: what was staged could not be looked through: $said"
fi
exit 0
