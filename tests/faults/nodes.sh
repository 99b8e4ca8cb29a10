#!/bin/bash
# nodes.sh COMMAND...: runs it where it can reach four machines, m0 … m3, by the processes that FAULT_MACHINES names.
. "$(dirname "$0")/../e2e/machines.sh"
. "$(dirname "$0")/../e2e/lib.sh"
unset XDG_RUNTIME_DIR # each machine has its own /dev/shm
start_machines m0 m1 m2 m3
for machine in m0 m1 m2 m3; do FAULT_MACHINES+="$machine:${holder_of[$machine]} "; done
export FAULT_MACHINES TMPDIR=$work
"$@"
