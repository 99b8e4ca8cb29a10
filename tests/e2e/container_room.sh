# What the tests of containers share: a root of some MB out of this machine's own programs, and a place where podman runs
# although the machine has cgroups in hybrid mode, which crun refuses.

# make_root FOLDER: /bin/sh, some programs, python3 without what few scripts need, and what they are linked with
make_root() {
    local root=$1 program library
    mkdir -p "$root"/{bin,usr/bin,etc,proc,sys,dev,tmp,run,var,root,home,image}
    for program in sh cat sleep ls id rm readlink env mkdir setsid; do
        program=$(command -v "$program") || fail "no program for the image"
        mkdir -p "$root$(dirname "$program")"
        cp -L "$program" "$root$program"
        while read -r library; do
            mkdir -p "$root$(dirname "$library")"
            [ -e "$root$library" ] || cp -L "$library" "$root$library"
        done < <(ldd "$program" 2>/dev/null | grep -o '/[^ ]*')
    done
    [ -e "$root/bin/sh" ] || cp -L /bin/sh "$root/bin/sh"
    echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
    echo 'of the image' >"$root/image/mark"
}
# fake_apptainer FILE: a FAKE of apptainer, of bubblewrap, that takes its options as its documentation has them
fake_apptainer() {
    cat >"$1" <<'END'
#!/bin/bash
# A fake: apptainer exec [--no-home] [--no-mount=…] [--nv] [--bind=SOURCE:TARGET:ro|rw]… [--pwd=FOLDER] FOLDER COMMAND…
[ "$1" = exec ] && shift || exit 255
line=(bwrap)
binds=()
while [[ $1 = -* ]]; do
    case $1 in
    --no-home | --no-mount=home,cwd | --nv) ;;
    --bind=*:ro) binds+=(--ro-bind) && rest=${1#--bind=} && rest=${rest%:ro} && binds+=("${rest%%:*}" "${rest#*:}") ;;
    --bind=*:rw) binds+=(--bind) && rest=${1#--bind=} && rest=${rest%:rw} && binds+=("${rest%%:*}" "${rest#*:}") ;;
    --pwd=*) line+=(--chdir "${1#--pwd=}") ;;
    *) echo "FATAL: unknown flag: $1" && exit 1 ;;
    esac
    shift
done
[ -d "$1" ] || { echo "FATAL:   could not open image $1: failed to retrieve path for $1" >&2; exit 255; }
line+=(--bind "$1" / --dev-bind /dev /dev --proc /proc --ro-bind /sys /sys "${binds[@]}" --setenv PATH /usr/bin:/bin --setenv HOME /)
shift
while IFS= read -r name; do line+=(--setenv "${name#APPTAINERENV_}" "${!name}"); done < <(compgen -e APPTAINERENV_)
# bubblewrap has a process beside the program, which must not go first: apptainer's waits, too.
exec env --ignore-signal=TERM "${line[@]}" env --default-signal=TERM "$@"
END
    chmod +x "$1"
}
# has_mpi: whether MPI ranks can be tried, by Debian's Python in containers that see /usr and settings of /etc
has_mpi() {
    "$AUTOLAUNCH" --version | grep -qw PMIX && /usr/bin/python3 -c 'import mpi4py' 2>/dev/null && return
    echo "not tried: MPI; that needs autolaunch with PMIx and python3-mpi4py"
    return 1
}
mpi_ranks='from mpi4py import MPI; c = MPI.COMM_WORLD; print("mpi", c.rank, c.size, c.allreduce(1))'
# enter_room SCRIPT: the rest of that script runs in a mount namespace with a user of its own (uid 2003, who has subordinate
# uids), and without the half of hybrid cgroups that crun does not understand. Nothing of that is seen outside.
enter_room() {
    [ -n "${CONTAINER_ROOM:-}" ] && return
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "needs root, to make a user for rootless podman in a mount namespace"
    cd / && rm -rf "$work"
    CONTAINER_ROOM=1 exec unshare --mount --propagation private /bin/bash "$1"
}
make_user() {
    local file
    mountpoint -q /sys/fs/cgroup/unified && umount /sys/fs/cgroup/unified
    for file in passwd group subuid subgid; do [ -e /etc/$file ] && cp /etc/$file "$work/$file" || : >"$work/$file"; done
    chmod 711 "$work"
    mkdir -p "$work/home" "$work/xdg" && chmod 700 "$work/home" "$work/xdg" && chown 2003:2003 "$work/home" "$work/xdg"
    echo "contained:x:2003:2003::$work/home:/bin/sh" >>"$work/passwd"
    echo 'contained:x:2003:' >>"$work/group"
    for file in subuid subgid; do echo 'contained:300000:65536' >>"$work/$file"; done
    for file in passwd group subuid subgid; do
        chmod 644 "$work/$file" && mount --bind "$work/$file" /etc/$file || fail "no user for the test"
    done
    mount --make-rshared /
    printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/home/graph" "$work/home/runroot" >"$work/storage.conf"
    chmod 644 "$work/storage.conf"
}
# as_user COMMAND...; in the background "${user[@]}" COMMAND..., whose pid is the command's
user=(setpriv --reuid 2003 --regid 2003 --clear-groups env "HOME=$work/home" USER=contained "XDG_RUNTIME_DIR=$work/xdg"
    "CONTAINERS_STORAGE_CONF=$work/storage.conf" TMPDIR=)
as_user() { "${user[@]}" "$@"; }
# The process that holds podman's namespaces stays, as podman wants it; a test takes it along.
leave_room() {
    if [ -n "${job:-}" ] && kill "$job" 2>/dev/null; then wait "$job"; fi
    [ -s "$work/xdg/libpod/tmp/pause.pid" ] && kill "$(cat "$work/xdg/libpod/tmp/pause.pid")"
    cleanup
}
