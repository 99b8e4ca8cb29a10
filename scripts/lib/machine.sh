# shellcheck shell=bash
# How much of this machine may a build take? To be sourced.

# limit_of FILE...: the first of them that holds a number, as cgroups say "no limit" in words.
limit_of() {
    local file value
    for file in "$@"; do
        { read -r value <"$file"; } 2>/dev/null || continue
        case $value in ''|*[!0-9]*) ;; *) echo "$value"; return ;; esac
    done
}

# machine_cores: the CPUs that we may run on, or fewer where a container has only a part of their time.
machine_cores() {
    local cores quota period
    cores=$(nproc)
    if { read -r quota period </sys/fs/cgroup/cpu.max; } 2>/dev/null && [ "$quota" != max ]; then
        quota=$(((quota + period - 1) / period))
        [ "$quota" -ge "$cores" ] || cores=$quota
    fi
    echo "$cores"
}

# machine_memory: MiB that are free, within the limit of a container.
machine_memory() {
    local free limit
    free=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
    limit=$(limit_of /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes)
    [ -z "$limit" ] || [ $((limit / 1048576)) -ge "$free" ] || free=$((limit / 1048576))
    echo "$free"
}

# parallel_jobs CORES MEMORY_MIB: compilers at once. The largest sources take 1.5 GiB each.
parallel_jobs() {
    local jobs=$(($2 / 1536))
    [ "$jobs" -le "$1" ] || jobs=$1
    [ "$jobs" -ge 1 ] || jobs=1
    echo "$jobs"
}
