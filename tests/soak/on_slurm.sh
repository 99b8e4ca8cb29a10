#!/bin/bash
# on_slurm.sh ARGUMENT...: soak.py beside a real Slurm, whose nodes see a small disk for the job's files. scripts/soak says more.
[ "$(id -u)" = 0 ] || { echo "SKIPPED: needs root, for namespaces of its own" && exit 77; }
# The disk is mounted before the cluster starts, and outside /tmp, of which every node has its own.
export TMPDIR=/var/tmp
. "$(dirname "$0")/../e2e/slurm/lib.sh"
trap '"$cluster" down 2>/dev/null; umount -l "$work/disk" 2>/dev/null; cleanup' EXIT
mkdir disk
mount -t tmpfs -o size=64m,mode=755 tmpfs disk || skip "no tmpfs can be mounted here"
# A lost node is autolaunch's to find: Slurm looks only later, but before srun has waited for long. A node that comes back is used again.
export CLUSTER_CONF=$'SlurmdDebug=debug\nSlurmdTimeout=15\nKillWait=3\nReturnToService=2\nRequeueExit=250' CLUSTER_GPUS=0
if [ "$*" != "--kinds list" ]; then start_cluster 4; fi
CLUSTER=$cluster python3 "$(dirname "$test_file")/soak.py" --work "$work" --disk "$work/disk" "$@"
