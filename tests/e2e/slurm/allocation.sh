#!/bin/bash
# What autolaunch reads from the environments of real tasks.
. "$(dirname "$0")/lib.sh"
start_cluster 4
show=$AUTOLAUNCH_BINARY_DIR/tests/e2e/slurm/show_allocation

script() { # NAME OPTIONS...: submit the script on standard input, wait for it; its output is in NAME.log
    local name=$1
    { echo "#!/bin/bash"; cat; } >"$name.sh"
    login sbatch -W -D "$PWD" -o "$PWD/$name.log" "${@:2}" "$name.sh" >/dev/null || fail "$name: $(cat "$name.log")"
}
sorted() { grep "^\(slurm\|mpirun\|error\)" "$1" | sort; }

test_shapes_of_steps() {
    expect "one task a node" "slurm node[1-4]#0 slurm node[1-4]#1 slurm node[1-4]#2 slurm node[1-4]#3 " \
        "$(login srun -N4 "$show" | sort | sed 's/ job.*//' | tr '\n' ' ')"
    expect "one task a GPU" "#0 0/2 #0 1/2 #1 0/2 #1 1/2 " \
        "$(login srun -N2 --ntasks-per-node=2 "$show" | sed 's/.*#\(.\).*task \([^ ]*\).*/#\1 \2/' | sort | tr '\n' ' ')"
    expect "uneven tasks, in turn" "#0 0/4 #0 1/4 #0 2/4 #0 3/4 #1 0/1 " \
        "$(login srun -N2 -n5 -m cyclic "$show" | sed 's/.*#\(.\).*task \([^ ]*\).*/#\1 \2/' | sort | tr '\n' ' ')"
}
test_a_batch_job_and_its_steps() {
    script batch -N4 --ntasks-per-node=1 --gpus-per-node=2 <<END
$show
srun -N2 -n2 -w node3,node4 --exclusive --gpus-per-node=1 $show
END
    local job
    job=$(sed -n 's/.* job \([0-9]*\) .*alone.*/\1/p' batch.log)
    expect "the steps" "slurm node[1-4]#0 job $job task 0/1 alone gpus [0,1]
slurm node[3-4]#0 job $job.0 task 0/1 gpus [0]
slurm node[3-4]#1 job $job.0 task 0/1 gpus [0]" "$(sorted batch.log)"
}
test_a_job_submitted_from_a_step() {
    printf '#!/bin/bash\n%s\n' "$show" >inner.sh
    script outer -N1 <<<"srun sbatch -N2 -D $PWD -o $PWD/inner.log inner.sh"
    eventually "the inner job" grep -q " alone" inner.log
    contains "the inner job" inner.log "slurm node["
}
test_components() {
    script components -N1 -n1 -w node3 : -N2 -n4 -w node1,node2 <<END
srun --het-group=0,1 $show
srun --het-group=1 $show
END
    expect "where they are" "node[3,1-2]#0 0/1 node[3,1-2]#1 0/3 node[3,1-2]#1 1/3 node[3,1-2]#1 2/3 node[3,1-2]#2 0/1 " \
        "$(sorted components.log | grep '\.0 ' | sed 's/slurm \([^ ]*\).*task \([^ ]*\).*/\1 \2/' | tr '\n' ' ')"
    expect "the second alone" "4" "$(sorted components.log | grep -c '^slurm node\[1-2\]#[01] job [0-9]*\.1 task [012]/[31]')"
}
test_arrays_have_ids_of_their_own() {
    printf '#!/bin/bash\nsrun %s\n' "$show" >array.sh
    login sbatch -W --array=1-3 -D "$PWD" -o "$PWD/array.%a.log" array.sh >/dev/null || fail "the array failed"
    expect "ids" "3" "$(cat array.*.log | sed -n 's/.* job \([0-9.]*\) .*/\1/p' | sort -u | wc -l)"
}
test_mpirun() {
    command -v mpirun >/dev/null || { echo "   skipped: no mpirun" && return; }
    mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "   skipped: mpirun is not Open MPI's" && return; }
    script mpirun -N3 --ntasks-per-node=2 <<END
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun -map-by node $show
echo none: none
mpirun -map-by ppr:1:node $show
END
    expect "the nodes of all" "mpirun node[1-3]#0 0/1 mpirun node[1-3]#0 0/2 mpirun node[1-3]#0 1/2 mpirun node[1-3]#1 0/1 mpirun node[1-3]#1 0/2 mpirun node[1-3]#1 1/2 mpirun node[1-3]#2 0/1 mpirun node[1-3]#2 0/2 mpirun node[1-3]#2 1/2 " \
        "$(sorted mpirun.log | sed 's/\(mpirun [^ ]*\).*task \([^ ]*\).*/\1 \2/' | sort | tr '\n' ' ')"
    expect "the head" "1" "$(sed -n 's/.* head //p' mpirun.log | sort -u | wc -l)"
}
test_time_left() {
    script left -N1 -t 1-00:10 <<<"$show --time-left"
    local left took
    read -r left took < <(sed -n 's/left \([0-9]*\) took \([0-9]*\)/\1 \2/p' left.log)
    [ "${left:-0}" -gt 86900 ] && [ "$left" -le 87000 ] || fail "$left s left of 87000: $(cat left.log)"
    echo "   squeue took $took ms"
    script unlimited -N1 <<<"$show --time-left"
    contains "no limit" unlimited.log "left -1 "
}
run_tests
