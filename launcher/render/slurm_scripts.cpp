#include "render/slurm_scripts.hpp"

#include "base/refuse.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

// slurmd gives these scripts no PATH.
constexpr std::string_view kHead = R"sh(set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022
)sh";

constexpr std::string_view kSay = R"sh(
say() { # to slurmd's log, and to the node's
    echo "$0: $*" >&2
    logger -t "${0##*/}" -- "$*" 2>/dev/null || :
}
)sh";

constexpr std::string_view kJob = R"sh(
job=${SLURM_JOB_ID:-}
case $job in
'' | *[!0-9]*)
    say "SLURM_JOB_ID is no number: '$job'; nothing is done"
    exit 0
    ;;
esac
)sh";

constexpr std::string_view kProlog = R"sh(#!/bin/sh
# Slurm's Prolog for autolaunch, made by autolaunch render slurm: it tells dcgm-exporter whose the GPUs are, and gives no
# job to a node that is not fit for one. slurmd runs it as root before a job's first step on a node and drains the node
# where it does not exit with 0, so it calls nothing of Slurm's, has a limit on all that it waits for, and fails for an
# unfit node alone.
@HEAD@
autolaunch=@PROGRAM@
gpu_jobs=@GPU_JOBS@ # DCGM_HPC_JOB_MAPPING_DIR of dcgm-exporter
check=yes # no: leave the look at the node to HealthCheckProgram
@SAY@@JOB@
# GPU.INSTANCE of each MIG device in CUDA_VISIBLE_DEVICES: -L has their UUIDs by GPU and device, the table the instances.
mig_instances() {
    { timeout 10 nvidia-smi -L && timeout 10 nvidia-smi; } | awk -v wanted="$CUDA_VISIBLE_DEVICES" '
        BEGIN { n = split(wanted, uuids, ","); for (i = 1; i <= n; i++) ours[uuids[i]] = 1 }
        /^GPU [0-9]+:/ { gpu = $2 + 0 }
        /^ +MIG .*\(UUID: MIG-/ {
            device = $0; sub(/^.*Device +/, "", device); sub(/:.*/, "", device)
            uuid = $0; sub(/^.*UUID: /, "", uuid); sub(/\).*/, "", uuid)
            at[gpu, device + 0] = uuid
        }
        /^\| +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +\|/ {
            if (at[$2 + 0, $5 + 0] in ours) print $2 "." $3
        }'
}
# A file a GPU, a line a job that uses it. dcgm-exporter takes files whose names are numbers, so none of those is half-written.
map_gpu() { # GPU or GPU.INSTANCE
    case $1 in *[!0-9.]*) return 1 ;; esac
    {
        [ ! -e "$gpu_jobs/$1" ] || grep -vx -e "$job" "$gpu_jobs/$1"
        echo "$job"
    } >"$gpu_jobs/.$1.tmp" && mv -f "$gpu_jobs/.$1.tmp" "$gpu_jobs/$1"
}
map_gpus() {
    case ${CUDA_VISIBLE_DEVICES:-} in
    *MIG-*) gpus=$(mig_instances) ;;
    *) gpus=$(echo "${SLURM_JOB_GPUS:-}" | tr , ' ') ;;
    esac
    [ -n "$gpus" ] || [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || return 1
    [ -n "$gpus" ] || return 0
    mkdir -p "$gpu_jobs" || return 1
    (
        flock -w 5 9 || exit 1
        for gpu in $gpus; do
            map_gpu "$gpu" || exit 1
        done
    ) 9>"$gpu_jobs/.lock"
}

map_gpus || say "job $job: dcgm-exporter is not told which GPUs are its (${CUDA_VISIBLE_DEVICES:-none})"

if [ "$check" = yes ] && [ -x "$autolaunch" ]; then
    reason=$(timeout -k 2 30 "$autolaunch" doctor --health-check --skip memlock,nofile 2>&1)
    code=$?
    if [ "$code" -eq 78 ]; then
        say "$reason"
        exit 1
    fi
    [ "$code" -eq 0 ] || say "job $job: the node could not be looked at ($code): $reason"
fi
exit 0
)sh";

constexpr std::string_view kEpilog = R"sh(#!/bin/sh
# Slurm's Epilog for autolaunch, made by autolaunch render slurm: it takes away what a job may have left. slurmd runs it as
# root when the job is over on a node and drains the node where it does not exit with 0, so it calls nothing of Slurm's,
# has a limit on all that it waits for, and fails where something of the job cannot be ended.
@HEAD@
autolaunch=@PROGRAM@
gpu_jobs=@GPU_JOBS@ # DCGM_HPC_JOB_MAPPING_DIR of dcgm-exporter
textfiles=@TEXTFILES@ # node_exporter's --collector.textfile.directory
@SAY@@JOB@
# The job's line goes, and a file that has no other.
unmap_gpus() {
    [ -d "$gpu_jobs" ] || return 0
    (
        flock -w 5 9 || exit 1
        for file in "$gpu_jobs"/[0-9]*; do
            new=$gpu_jobs/.${file##*/}.tmp
            if ! grep -qsx -e "$job" "$file"; then
                continue
            elif grep -vx -e "$job" "$file" >"$new"; then
                mv -f "$new" "$file" || exit 1
            else
                rm -f "$new" "$file" || exit 1
            fi
        done
    ) 9>"$gpu_jobs/.lock"
}

unmap_gpus || say "job $job: dcgm-exporter may go on showing GPUs as its: look into $gpu_jobs"

# What an agent that was killed has left: its last numbers, which node_exporter would show for ever.
rm -f "$textfiles/autolaunch_${job}_"*.prom "$textfiles/.autolaunch_${job}_"* ||
    say "job $job: its metrics cannot be removed from $textfiles"

if [ -x "$autolaunch" ]; then
    left=$(timeout -k 2 60 "$autolaunch" clean --job "$job" 2>&1)
    code=$?
    if [ "$code" -eq 78 ]; then
        say "[node_problem] job $job: $left"
        exit 1
    fi
    [ "$code" -eq 0 ] || say "job $job: what it left could not be looked for ($code): $left"
fi

# Data of the job's user that was staged here and that no job has used for long, as that user. What does not go now goes later.
if [ -x "$autolaunch" ] && [ "${SLURM_JOB_UID:-0}" != 0 ]; then
    said=$(timeout -k 2 30 "$autolaunch" gc --epilog --apply 2>&1) || say "job $job: what was staged could not be looked through: $said"
fi
exit 0
)sh";

constexpr std::string_view kHealth = R"sh(#!/bin/sh
# Slurm's HealthCheckProgram for autolaunch, made by autolaunch render slurm: it ends what dead jobs have left, and drains
# the node when it is not fit for a job, with a reason that begins with [node_problem]. slurmd ends it after 60 s.
@HEAD@
autolaunch=@PROGRAM@
@SAY@
[ -x "$autolaunch" ] || {
    say "no $autolaunch on this node"
    exit 0
}
timeout -k 2 20 "$autolaunch" clean >/dev/null 2>&1
code=$?
[ "$code" -eq 0 ] || say "autolaunch clean exits with $code: run it here to see why"
exec timeout -k 2 30 "$autolaunch" doctor --health-check --drain --skip memlock,nofile
)sh";

constexpr std::string_view kLines =
    R"conf(# For slurm.conf, made by autolaunch render slurm; where you have such programs, call these from yours.
# Prolog and Epilog also for jobs that start no step on a node:
PrologFlags=Alloc
Prolog=/etc/slurm/autolaunch-prolog.sh
Epilog=/etc/slurm/autolaunch-epilog.sh
HealthCheckProgram=/etc/slurm/autolaunch-health.sh
HealthCheckInterval=300
HealthCheckNodeState=ANY,CYCLE
# dcgm-exporter is started with DCGM_HPC_JOB_MAPPING_DIR=@GPU_JOBS@
)conf";

void replace_all(std::string& text, std::string_view word, std::string_view with) {
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + with.size()))
        text.replace(at, word.size(), with);
}

std::string checked(const std::string& path, const char* what) {
    constexpr std::string_view kPlain = "/._+-";
    const bool plain = std::all_of(path.begin(), path.end(), [&](unsigned char c) {
        return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != kPlain.npos;
    });
    if (path.empty() || path[0] != '/' || !plain)
        refuse(std::string(what) + " " + path +
                   ": a script of root's needs a whole path of plain characters",
               "such as /usr/bin/autolaunch or /run/autolaunch/gpu-jobs");
    return path;
}

std::string filled_in(std::string_view form, const SlurmScriptPlaces& places) {
    const std::string program = checked(places.program, "the program");
    const std::string textfiles = checked(places.textfiles, "--textfile-dir");
    const std::string gpu_jobs = checked(places.gpu_jobs, "--job-mapping-dir");
    const std::array<std::pair<std::string_view, std::string>, 6> words = {{
        {"@HEAD@\n", std::string(kHead)},
        {"@SAY@", std::string(kSay)},
        {"@JOB@", std::string(kJob)},
        {"@PROGRAM@", program},
        {"@TEXTFILES@", textfiles},
        {"@GPU_JOBS@", gpu_jobs},
    }};
    std::string text(form);
    for (const auto& [word, with] : words)
        replace_all(text, word, with);
    return text;
}

}  // namespace

std::vector<RenderedFile> slurm_scripts(const SlurmScriptPlaces& places) {
    return {
        {"autolaunch-prolog.sh", filled_in(kProlog, places), "Slurm's Prolog, for /etc/slurm",
         true},
        {"autolaunch-epilog.sh", filled_in(kEpilog, places), "Slurm's Epilog, for /etc/slurm",
         true},
        {"autolaunch-health.sh", filled_in(kHealth, places),
         "Slurm's HealthCheckProgram, for /etc/slurm", true},
        {"slurm.conf.lines", filled_in(kLines, places), "what slurm.conf needs for them"},
    };
}

}  // namespace autolaunch::launcher
