#!/bin/bash
# Real MPI programs under autolaunch and under their own launcher, with equal results. Each line of the report is a program:
# "ok", or "skipped" with what is missing and the step that would install it.
#
#   tests/real/mpi.sh          what Debian has and scripts/install-deps.sh --tests installs: mpi4py (0.4 MB), HPCC (0.5 MB),
#                              LAMMPS (13.6 MB), NetPIPE (0.1 MB)
#   tests/real/mpi.sh --real   also what is larger, or not Debian's: tests/real/mpi_large.sh says which, and where it looks
#
# AUTOLAUNCH names the program to test.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../e2e/lib.sh"
real=no
[ "${1:-}" != --real ] || real=yes
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1
ran=0
limit=${REAL_LIMIT:-400} # seconds for one program: for broken code, not for slow machines

ok() { ran=$((ran + 1)) && printf 'ok       %-33s %s\n' "$1" "$2"; }
skipped() { printf 'skipped  %-33s %s\n' "$1" "$2"; }
seconds() { local since=$1; echo "$((($(date +%s%N) - since) / 10000000))" | sed -E 's/(..)$/.\1 s/; s/^\./0./'; }
# needs NAME COMMAND PACKAGE: false, and says so, where it is not there.
needs() { command -v "$2" >/dev/null || { skipped "$1" "no $2: apt-get install $3"; return 1; }; }

# What each rank printed is in a file of its own under either launcher: on one console two ranks' lines may be mixed.
#
# ours FOLDER ARGUMENTS...: autolaunch; FOLDER gets said (its own words), rank.N (stdout) and error.N (stderr).
ours() {
    local folder=$1 code=0 rank
    shift
    rm -rf "$folder" && mkdir "$folder"
    timeout -k 10 "$limit" "$AUTOLAUNCH" --log-dir "$folder/run" "$@" </dev/null >"$folder/said" 2>&1 || code=$?
    for rank in "$folder"/run/generation-0/rank-*; do
        [ -d "$rank" ] || continue
        cp "$rank/stdout" "$folder/rank.${rank##*-}" && cp "$rank/stderr" "$folder/error.${rank##*-}"
    done
    return $code
}
# own FOLDER ARGUMENTS...: the same under Open MPI's mpirun.
own() {
    local folder=$1 code=0 rank
    shift
    rm -rf "$folder" && mkdir "$folder"
    timeout -k 10 "$limit" mpirun.openmpi --output-filename "$folder/run:nojobid,nocopy" "$@" </dev/null >"$folder/said" 2>&1 || code=$?
    for rank in "$folder"/run/rank.*; do
        [ -d "$rank" ] || continue
        cp "$rank/stdout" "$folder/rank.$((10#${rank##*.}))" && cp "$rank/stderr" "$folder/error.$((10#${rank##*.}))"
    done
    return $code
}
# died WHAT CODE: what both launchers and all ranks said last.
died() {
    local file
    echo "FAILED: $1 (exit code $2$([ "$2" -ne 124 ] || echo ": it took longer than $limit s"))" >&2
    for file in "$work"/own/{said,rank.*,error.*} "$work"/ours/{said,rank.*,error.*} "$work"/ours/run/generation-0/pmixd-*.log; do
        [ -s "$file" ] && tail -n 25 "$file" | sed "s|^|  ${file#"$work/"}: |" >&2
    done
    echo "  load: $(cat /proc/loadavg), $(getconf _NPROCESSORS_ONLN) CPUs, $(df --output=avail -h /dev/shm "$work" | tr -s '\n ' ' ')" >&2
    exit 1
}
# results FOLDER: what the ranks printed, rank by rank, as `filter` leaves it.
results() {
    local rank
    for rank in "$1"/rank.*; do ${filter:-cat} <"$rank"; done
}

# same NAME COMMAND...: each rank prints the same under both launchers. `launcher` is the other one, `own` by default.
same() {
    local name=$1 began their_time our_time
    shift
    began=$(date +%s%N)
    "${launcher:-own}" own -n 2 "$@" || died "$name under mpirun" $?
    their_time=$(seconds "$began") began=$(date +%s%N)
    ours ours -n 2 "$@" || died "$name under autolaunch" $?
    our_time=$(seconds "$began")
    results own >own.result && results ours >ours.result
    [ -s own.result ] || died "$name: nothing to compare" 0
    diff own.result ours.result >difference || died "$name: other results than under mpirun: $(cat difference)" 0
    ok "$name" "$(wc -l <own.result) equal lines; $our_time, mpirun $their_time"
}

thermo() { awk '/^ *[0-9]+( +-?[0-9.e+-]+)+ *$/{print $1, $2, $3, $4, $5, $6}'; }

lammps() {
    needs lammps lmp lammps || return 0
    cat >in.lj <<'EOF'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo 20
run 60
EOF
    filter=thermo same "lammps" lmp -in in.lj -log none
    filter=thermo same "lammps behind nice" nice -n 0 lmp -in in.lj -log none
}

hpcc_results() { # what does not depend on speed: of PTRANS the verdict, of HPL the residual too
    sed -nE -e '/^WALL .*(PASSED|FAILED)/s/ +[0-9.]+ +(PASSED|FAILED).*/ \1/p' -e '/^\|\|Ax.*(PASSED|FAILED)/p' \
        -e '/^(CommWorldProcs|Success|MPIRandomAccess_ErrorsFraction|HPL_N|MPIFFT_maxErr)=/p' "$1" | sort
}
hpcc_program() {
    needs hpcc hpcc hpcc || return 0
    local example=/usr/share/doc/hpcc/examples/_hpccinf.txt began their_time our_time
    [ -r "$example" ] || { skipped hpcc "no $example: its package came without documentation"; return 0; }
    # N 200, one block size, a grid of 1 x 2. It writes where it is started.
    awk 'NR==6{$1=200} NR==8{$1=40} NR==11{$1=1} NR==12{$1=2} {print}' "$example" >hpccinf.txt
    began=$(date +%s%N)
    own own -n 2 hpcc || died "hpcc under mpirun" $?
    mv hpccoutf.txt hpcc.own || died "hpcc under mpirun wrote nothing" 0
    their_time=$(seconds "$began") began=$(date +%s%N)
    ours ours -n 2 hpcc || died "hpcc under autolaunch" $?
    mv hpccoutf.txt hpcc.ours || died "hpcc under autolaunch wrote nothing" 0
    our_time=$(seconds "$began")
    hpcc_results hpcc.own >own.result && hpcc_results hpcc.ours >ours.result
    [ -s own.result ] || died "hpcc: nothing to compare" 0
    diff own.result ours.result >difference || died "hpcc: $(cat difference)" 0
    ! grep -q FAILED ours.result || died "hpcc: $(cat ours.result)" 0
    ok hpcc "$(wc -l <ours.result) equal verdicts; $our_time, mpirun $their_time"
}

# Its times differ; that every message size was sent, and came, does not.
netpipe() { # MPI PROGRAM PACKAGE
    needs "netpipe, $1" "$2" "$3" || return 0
    ours ours -n 2 "$2" -u 4096 -n 20 -o "$work/np.out" || died "netpipe, $1" $?
    [ "$(wc -l <np.out)" -gt 20 ] || died "netpipe, $1: $(cat np.out)" 0
    ok "netpipe, $1" "$(wc -l <np.out) message sizes"
}

mpi4py() {
    /usr/bin/python3 -c 'import mpi4py' 2>/dev/null ||
        { skipped mpi4py "no mpi4py in /usr/bin/python3: apt-get install python3-mpi4py"; return 0; }
    same "mpi4py, script" /usr/bin/python3 -m mpi4py.bench helloworld
    same "mpi4py, behind a shell" sh -c '/usr/bin/python3 -m mpi4py.bench helloworld; exit $?'
    same "mpi4py, collectives" /usr/bin/python3 "$here/collectives.py"
    local began
    began=$(date +%s%N)
    ours ours -n 2 /usr/bin/python3 "$here/connect.py" || died "connect, accept, publish" $?
    [ "$(cat ours/rank.* | grep -c "connected, and heard")" = 2 ] || died "connect, accept, publish" 0
    ok "mpi4py, connect and publish" "$(seconds "$began")"
    began=$(date +%s%N)
    ours ours -n 2 /usr/bin/python3 "$here/spawn.py" || died "a refused spawn" $?
    grep -q "called MPI_Comm_spawn" ours/said || died "a refused spawn is not explained" 0
    ok "mpi4py, spawn is refused" "$(seconds "$began")"
}

command -v mpirun.openmpi >/dev/null || skip "no mpirun.openmpi: scripts/install-deps.sh"
[ -x "$AUTOLAUNCH_BINARY_DIR/launcher/pmi/autolaunch-pmixd" ] || skip "this build has no PMIx"
lammps
hpcc_program
netpipe "Open MPI" NPopenmpi netpipe-openmpi
netpipe MPICH NPmpich2 netpipe-mpich2
mpi4py
if [ "$real" = yes ]; then
    . "$here/mpi_large.sh"
else
    skipped "GROMACS, OSU, IMB, mpi4py's own tests, Open MPI 5, MPICH 5, Intel MPI" "large, or not Debian's: --real"
fi
[ $ran -gt 0 ] || skip "none of the programs is installed: scripts/install-deps.sh --tests"
