#!/usr/bin/env bash
#SBATCH --nodes=1
#SBATCH --comment="a # in quotes, and RANK=0"
#SBATCH --constraint='a100&nvlink'

set -o errexit -o pipefail
cat >config.yaml <<"EOF"
export RANK=0
#SBATCH --nodes=4
EOF
cat <<-END | tr a-z A-Z
	NCCL_IB_DISABLE=1
	END
case "$1" in
    a|b) echo first ;;
    (c) NAME=$(basename "$2" .yaml) ;;
    *) NAME=other; echo "it's ${NAME:-none}" ;;
esac
if [[ $SLURM_NODEID -eq 0 && ( -n $NAME || -z $2 ) ]]; then
    for file in *.txt; do (cd /data && wc -l "$file") & done
    wait
fi
function report { echo "exit code $?" >&2; }
trap report EXIT
for ((i = 0; i < 3; ++i)); do echo $((i * 2)) >/dev/null 2>&1; done
total=$(( $(wc -l <config.yaml) + ${#NAME} ))
diff <(sort a.txt) <(sort b.txt) || true
echo 'export LOCAL_RANK=0; torchrun --nproc-per-node 8 x.py &'
which torchrun # NCCL_P2P_DISABLE=1
python -c 'import torch; print(torch.__version__)'
autolaunch plan -c train.yaml
srun autolaunch -c train.yaml
