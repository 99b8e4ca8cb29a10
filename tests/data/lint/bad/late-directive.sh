#!/bin/bash
#SBATCH --nodes=1
cd "$HOME"
#SBATCH --time=1:00:00
cat >other.sh <<END
#SBATCH --nodes=4
END
srun ./prepare
# lint-expect: 4
