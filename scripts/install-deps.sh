#!/usr/bin/env bash
# Installs what building autolaunch needs, from Debian 12's own packages. Safe to run again.
#
#   scripts/install-deps.sh            what the build and the quick start need
#   scripts/install-deps.sh --tests    also what the tests need
#   scripts/install-deps.sh --list     print the packages and install nothing
#   scripts/install-deps.sh --missing  print those that are not installed, and install nothing
set -euo pipefail
# shellcheck source=scripts/lib/progress.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/progress.sh"

build_packages=(
    g++ cmake ninja-build pkg-config git ca-certificates
    libcli11-dev libyaml-cpp-dev libfmt-dev nlohmann-json3-dev libasio-dev libxxhash-dev libhwloc-dev libexpat1-dev
    libssl-dev libcurl4-openssl-dev libmunge-dev libibverbs-dev libopenmpi-dev openmpi-bin libpmix-dev
    liburing-dev libncurses-dev libarchive-dev
)
test_packages=(
    ccache doctest-dev mpich libmpich-dev libtorch-dev python3-torch python3-jsonschema procps util-linux
    slurmctld slurmd slurm-client libslurm-dev munge iproute2 faketime bubblewrap
    age radosgw ceph-mon ceph-osd
    python3-mpi4py hpcc lammps netpipe-openmpi netpipe-mpich2
)

with_tests=no
only=
for argument in "$@"; do
    case $argument in
        --tests) with_tests=yes ;;
        --list) only=list ;;
        --missing) only=missing ;;
        -h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "install-deps.sh: unknown argument '$argument' (--tests, --list, --missing)" >&2; exit 64 ;;
    esac
done

packages=("${build_packages[@]}")
[ "$with_tests" = no ] || packages+=("${test_packages[@]}")

if [ "$only" = list ]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi

# What is installed already needs neither root nor a network.
missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
done
if [ "$only" = missing ]; then
    printf '%s\n' ${missing[@]+"${missing[@]}"} | grep . || true
    exit 0
fi
if [ ${#missing[@]} -eq 0 ]; then
    echo "install-deps: all ${#packages[@]} packages are installed"
    exit 0
fi

give_up() {
    echo "install-deps: $1" >&2
    echo "install-deps: install these by hand, or their equivalents:" >&2
    printf '    %s\n' "${missing[@]}" >&2
    echo "install-deps: then: cmake --preset release && cmake --build --preset release" >&2
    echo "              and scripts/quickstart.sh --build build/release" >&2
    exit 69
}

# become_root: sets as_root; sudo asks for its password here, before a line is drawn that it would be asked in.
become_root() {
    as_root=()
    [ "$(id -u)" -ne 0 ] || return 0
    command -v sudo >/dev/null || give_up "not root, and there is no sudo"
    as_root=(sudo)
    sudo -n true 2>/dev/null && return 0
    { : </dev/tty; } 2>/dev/null ||
        give_up "not root, sudo wants a password, and there is no terminal to ask for it"
    echo "install-deps: sudo asks for your password, to install ${#missing[@]} packages with apt"
    sudo -v || give_up "sudo did not let this user install packages"
}

with_root() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive "$@"; }

# show_apt: apt's own account of how far it is, in lines such as dlstatus:3:12.5:Retrieving file 3 of 40 and, for dpkg,
# pmstatus:cmake:71.4:Unpacking cmake (amd64). It stays to the end of apt, which Ctrl-C does not end amid a package.
show_apt() {
    local kind what percent words shown=
    trap '' INT
    while IFS=: read -r kind what percent words; do
        case $kind:$percent in
            dlstatus:[0-9]*) what=fetching ;;
            pmstatus:[0-9]*) what=installing ;;
            *) printf '%s\n' "$kind${what:+:$what}${percent:+:$percent}${words:+:$words}" >>"$log"; continue ;;
        esac
        [ "$what" = "$shown" ] || progress_start install-deps "$what"
        shown=$what percent=${percent%%.*}
        progress_show "$percent" 100 "$percent %, ${words%% (*}"
    done
    progress_end
}

# run_apt ARGUMENTS...: what apt said is shown when it fails. Another apt that is at work is waited for.
run_apt() {
    with_root apt-get -qq -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 -o APT::Status-Fd=1 "$@" </dev/null 2>&1 |
        show_apt && return 0
    tail -n 20 "$log" >&2
    give_up "apt-get $1 failed; what it said is above"
}

command -v apt-get >/dev/null || give_up "this system has no apt-get: only on Debian 12 and its relatives packages are installed for you"
become_root
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'echo "install-deps: broken off; run it again, and it goes on from here" >&2; exit 130' INT

echo "install-deps: installing ${#missing[@]} of ${#packages[@]} packages, and what they need: ${missing[*]}"
# An installation that was broken off half-way: apt goes on only when dpkg has ended it.
[ -z "$(dpkg --audit 2>/dev/null)" ] || with_root dpkg --configure -a >"$log" 2>&1 || tail -n 5 "$log" >&2
echo "install-deps: asking for the newest lists of packages"
run_apt update
run_apt install -y --fix-broken --no-install-recommends "${missing[@]}"
echo "install-deps: done"
