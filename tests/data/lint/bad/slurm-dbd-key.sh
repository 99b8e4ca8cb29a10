#!/bin/bash
cat >/etc/slurm/slurm.conf <<END
ClusterName=lab
NodeName=n[1-4] CPUs=8 Gres=gpu:4
StorageHost=$DATABASE
END
cat >/etc/slurm/slurmdbd.conf <<END
DbdHost=head
StorageHost=db
END
cat <<END
StorageHost is a key
END
# lint-expect: 5
