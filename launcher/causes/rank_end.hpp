#pragma once
#include "causes/cause.hpp"
#include "causes/failure_evidence.hpp"
#include "exit_codes/rank_exited.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the driver has told of a rank's GPU while it ran.
struct GpuTrouble {
    enum class Kind { xid, double_bit_ecc, lost, slowed } kind = Kind::xid;
    int number = 0;          ///< of an Xid
    std::string words = {};  ///< for the screen: "Xid 79", "it was slowed down: too hot"
};

/// What a node knows of the end of one of its ranks.
struct RankEnd {
    RankExited end;
    std::string node;  ///< its host name
    FailureEvidence words;
    std::optional<std::int64_t>
        oom_kills;  ///< by the kernel in the job's cgroup in this generation; nothing: unknown
    std::string no_room;        ///< why nothing can be written where its logs are; empty: it can
    std::string cannot_resume;  ///< why it said that no restart could go on; empty: it did not
    std::string mpi_fault;      ///< what MPI's service saw: "called MPI_Abort with error code 3"
    std::vector<std::string>
        kernel_log;           ///< lines of this generation that may concern it, oldest first
    bool knows_pids = false;  ///< process numbers there are those of this node's agent
    std::string log_folder;   ///< where its logs are
    std::string core;         ///< the core file and what opens it, or why there is none
    std::string last_moment;  ///< what it did last, by its reports and its recorder; empty: unknown
    std::vector<GpuTrouble> gpu_troubles;  ///< of its own GPU, oldest first
    std::vector<std::string> ports_down;   ///< of HCAs, that were up when its generation started
};

/// Why it ended: docs/causes.md as a function. Pure.
EndRecord judge(const RankEnd& rank);

/// EndRecord::vain where no checkpoint can be used.
inline constexpr char kSameCheckpoints[] = "it would find the same checkpoints";
/// EndRecord::vain where the disk of the logs is full.
inline constexpr char kNoRoom[] = "before there is room it would end as this one did";

/// Texts that differ in numbers and addresses alone are equal in it. Pure.
std::string error_signature(const EndRecord& record);

}  // namespace autolaunch::launcher
