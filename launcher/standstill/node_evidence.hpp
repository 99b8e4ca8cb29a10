#pragma once
#include "allocation/slurm_command.hpp"
#include "hang_evidence/nccl_ras.hpp"
#include "hang_evidence/node_state.hpp"
#include "hang_evidence/torch_request.hpp"

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// What a node says of itself while its ranks stand still: NCCL's RAS, PyTorch's flight recorder of
/// the ranks that are named, GPUs by nvidia-smi, HCAs, pressure and throttling. All is asked at
/// once, before a debugger stops a rank, and for 3 s.
///
/// Owner: RankStacks. Threads: the agent's one. Blocks: on /proc and /sys.
class NodeEvidence {
public:
    using Ranks = std::vector<std::pair<int, pid_t>>;

    NodeEvidence(asio::io_context& io, std::function<Ranks()> ranks)
        : timer_(io), ranks_(std::move(ranks)) {}

    void gather(const Ranks& named, std::function<void()> over);
    /// Of the whole node; empty: nothing.
    std::string of_node() const;
    std::string of_rank(int rank) const;
    void stop();

private:
    void look();
    bool all_answered();

    asio::steady_timer timer_;
    const std::function<Ranks()> ranks_;
    const std::time_t born_ = std::time(nullptr);
    std::function<void()> over_;
    std::chrono::steady_clock::time_point began_;
    std::optional<RasQuestion> ras_;
    std::optional<SlurmCommand> gpus_;
    HcaCounters counters_;
    std::map<int, TorchFiles> torch_;
    std::map<int, TorchWords> torch_says_;
    std::time_t torch_asked_ = 0;  // 0: it was not
    std::string text_;
};

}  // namespace autolaunch::launcher
