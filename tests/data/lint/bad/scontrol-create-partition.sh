#!/bin/bash
scontrol create partition gpu Nodes=node[1-4] Default=YES
sudo scontrol create partition name=debug nodes=node1
scontrol create partition PartitionName=long Nodes=node2
# lint-expect: 2,3,4
