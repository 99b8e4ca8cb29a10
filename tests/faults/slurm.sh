#!/bin/bash
# slurm.sh COMMAND...: runs it beside a real Slurm with the nodes node1 … node4 (tests/e2e/slurm/cluster.sh).
. "$(dirname "$0")/../e2e/slurm/lib.sh"
# SlurmdTimeout is so long that what srun and autolaunch do about a lost node comes before Slurm notices for itself.
export CLUSTER_CONF='SlurmdTimeout=60
KillWait=3
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL PreemptMode=REQUEUE GraceTime=5
PartitionName=first Nodes=ALL PriorityTier=10 PreemptMode=OFF'
start_cluster 4
export CLUSTER=$cluster TMPDIR=$work
"$@"
