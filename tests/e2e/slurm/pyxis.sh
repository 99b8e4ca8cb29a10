#!/bin/bash
# container.runtime: pyxis on a real Slurm: srun starts the whole step in the image, autolaunch in it starts ranks as if there
# were none. The plugin is a stand-in with pyxis' options (container_stand_in.c), whose images are folders; it is not pyxis.
. "$(dirname "$0")/lib.sh"
. "${cluster%/slurm/*}/container_room.sh"

stand_in=${cluster%/*}/container_stand_in.c
echo '#include <slurm/spank.h>' | gcc -E - >/dev/null 2>&1 || skip "no slurm/spank.h: scripts/install-deps.sh --tests (libslurm-dev)"
gcc -O1 -Wall -shared -fPIC -o "$work/container_stand_in.so" "$stand_in" || fail "the stand-in for pyxis"
echo "required $work/container_stand_in.so" >"$work/plugstack.conf"
export CLUSTER_CONF="PlugStackConfig=$work/plugstack.conf"
start_cluster 2

# An image that has autolaunch where the login node has it.
make_image() {
    local program library
    make_root image
    while read -r program; do
        mkdir -p "image$(dirname "$program")" && cp "$program" "image$program" || fail "no $program in the image"
        while read -r library; do
            mkdir -p "image$(dirname "$library")"
            [ -e "image$library" ] || cp -L "$library" "image$library"
        done < <(ldd "$program" 2>/dev/null | grep -o '/[^ ]*')
    done < <(find "${AUTOLAUNCH%/*}" -maxdepth 1 -type f -executable -name 'autolaunch*')
    # What it loads when it is needed, between nodes.
    for library in $(ldconfig -p | sed -n 's/.*lib\(ssl\|crypto\)\.so\.3 .* => //p'); do
        mkdir -p "image$(dirname "$library")" && cp -L "$library" "image$library"
    done
}
job_spec() {
    cat >train.yaml <<END
trainer: {command: [sh, -c, 'cat /image/mark; echo "rank \$RANK of \$WORLD_SIZE, home: \$(ls /home)"']}
container: {image: "$PWD/image", runtime: pyxis, mounts: [/etc]}
resource_management: {nodes: 2, ranks_per_node: 2}
slurm_config: {job_name: inside, time_limit: 5, output: out.log}
END
}

test_submit_starts_the_step_in_the_image() {
    make_image && job_spec
    code=0
    login autolaunch submit -c train.yaml --wait >job.log 2>err.log || code=$?
    expect "exit code: $(cat err.log out.log)" 0 "$code"
    contains "what must be in the image" err.log "the step is in $PWD/image, where autolaunch must be installed as $AUTOLAUNCH"
    expect "ranks in the image" 4 "$(cat runs/[0-9]*/generation-0/rank-*/stdout | grep -c 'of the image')"
    cat runs/[0-9]*/generation-0/rank-*/stdout | grep -qx 'rank 3 of 4, home: ' || fail "$(cat runs/[0-9]*/generation-0/rank-*/stdout)"
    grep -q -- "srun .*--container-image=$PWD/image --container-mounts=/etc:/etc:ro,$PWD:$PWD:rw --no-container-mount-home $AUTOLAUNCH" runs/.submitted/*/job.sh ||
        fail "$(cat runs/.submitted/*/job.sh)"
}
test_plan_says_it_and_prints_the_line() {
    make_image && job_spec
    login autolaunch plan -c train.yaml >out.log 2>err.log || fail "plan: $(cat err.log)"
    contains "the plan" out.log "autolaunch must be installed in it, and starts ranks as if there were none: srun --container-image=$PWD/image --container-mounts=/etc:/etc:ro --no-container-mount-home autolaunch"
    # The line by hand; the folder of the run is a mount of the user's.
    login srun -N1 --container-image="$PWD/image" --container-mounts="/etc:/etc:ro,$PWD:$PWD:rw" --no-container-mount-home \
        "$AUTOLAUNCH" --log-dir run -c train.yaml resource_management.nodes=1 >out.log 2>err.log
    expect "exit code" 0 "$?"
    expect "ranks in the image" 2 "$(cat run/generation-0/rank-*/stdout | grep -c 'of the image')"
    login srun -N1 sh -c '[ -e /image/mark ] && echo inside || echo outside' >out.log
    expect "a step without the options" outside "$(<out.log)"
}
test_an_image_without_autolaunch() {
    make_image && job_spec
    rm "image$AUTOLAUNCH"
    code=0
    login autolaunch submit -c train.yaml --wait >job.log 2>err.log || code=$?
    [ "$code" != 0 ] || fail "it ended well"
    grep -qE "$AUTOLAUNCH.*No such file|No such file.*$AUTOLAUNCH" out.log || fail "$(cat out.log)"
}
run_tests
