#pragma once
#include "progress/rank_activity.hpp"
#include "progress/step_watch.hpp"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// What shows that the ranks of a node get on which report no steps: what they print, bytes that
/// they read, write and send over TCP, and those of their GPUs' NVLinks; the node's own network and
/// HCAs only where nobody else is on it. CPU time shows nothing: who waits may spin. Of all its
/// ranks together, because often one alone prints.
///
/// Owner: StandstillWatch. Threads: the agent's one. Blocks: never; reads /proc and looks at files.
class SignsOfLife {
public:
    using Ranks = std::vector<std::pair<int, pid_t>>;
    using Moment = StepWatch::Moment;

    /// What it is told of the node.
    struct Node {
        bool is_ours = true;  ///< no other job is on it: its counters are the job's
        std::function<std::vector<GpuPace>()> gpus = {};  ///< of the ranks; empty: none
        std::filesystem::path proc = "/proc", sys = "/sys";
    };

    SignsOfLife() = default;
    /// `told`: a limit by the user's word.
    SignsOfLife(std::filesystem::path run_dir, int generation, std::optional<StepWatch::Time> told,
                Node node);

    /// At the output once a second, at the rest every 10 s.
    void look(const Ranks& ranks, Moment now);
    std::optional<StepWatch::Overdue> overdue(Moment now) const;
    void forgive(StepWatch::Time time) { pace_.forgive(time); }
    const StepWatch& pace() const { return pace_; }
    /// Something went over the node's links since the ranks' last sign, and may be another job's.
    bool has_strange_traffic() const { return strange_traffic_; }

private:
    /// Since the driver was loaded, the ranks were started, the node was.
    struct Counters {
        std::uint64_t moved = 0, nvlink = 0, of_node = 0;
        std::map<std::uint64_t, std::uint64_t> tcp;
    };
    std::uint64_t printed_bytes(const Ranks& ranks) const;
    Counters counters_of(const Ranks& ranks) const;

    std::filesystem::path run_dir_;
    int generation_ = 0;
    Node node_;
    StepWatch pace_;
    int first_rank_ = 0;
    Moment output_at_{}, bytes_at_{};
    std::uint64_t printed_ = 0;
    Counters counters_;
    bool strange_traffic_ = false;
};

/// Whether the job may use all CPUs of this node, so that no other job is on it, as far as they
/// tell: `granted` is the scheduler's word (SLURM_CPUS_ON_NODE), nothing where there is none. Pure.
bool has_whole_node(int allowed_cpus, int online_cpus, std::optional<int> granted);
/// The same of this process, now.
bool has_whole_node();

/// Bytes that came and went over all links of this network namespace, by the text of
/// /proc/net/dev. Pure.
std::uint64_t network_bytes(const std::string& table);

}  // namespace autolaunch::launcher
