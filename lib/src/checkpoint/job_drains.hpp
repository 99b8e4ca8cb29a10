#pragma once
#include "checkpoint/drain/drain_chain.hpp"
#include "checkpoint/drain/noticeboard.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/comm/communicator.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch {

/// What a job's drains tell, by their threads, and need.
struct JobDrainEvents {
    std::function<void(const DrainedCheckpoint& checkpoint)> drained;
    /// And this where it is the first place: with directories of nodes, a checkpoint counts now.
    std::function<void(const DrainedCheckpoint& checkpoint)> counts = {};
    std::function<void(const std::string& text)> note;
    std::function<void(const std::filesystem::path& path)> deleted;
    /// A board of the job, for the drains of its nodes.
    std::function<std::unique_ptr<Noticeboard>(const std::string& prefix)> make_board;
};

/// Rank 0 drains for all; with directories of nodes (`leaders` of leaders_of_directories()) each
/// one's leader drains its files to the first place, and rank 0 from there to the others. Nothing
/// where this rank drains nothing. Collective. Where settings are wrong all ranks fail, each by
/// itself. Throws Error{invalid_argument}.
std::unique_ptr<DrainChain> make_job_drains(Communicator& world, const CheckpointOptions& options,
                                            const std::vector<int>& leaders,
                                            const JobDrainEvents& events);

}  // namespace autolaunch
