#pragma once
// Nodes on one machine, for tests of launcher/pmi: each has its own MpiService and its own ranks,
// real MPI processes; they reach each other through a Member that lives in this process.
#include "base/deadline.hpp"
#include "control/member.hpp"
#include "pmi/mpi_service.hpp"
#include "processes.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::testing {

using launcher::MpiMode;

/// What the members of one simulated job share.
class Exchange {
public:
    explicit Exchange(asio::io_context& io, int nodes) : io_(io), nodes_(nodes), relays_(nodes) {}
    void fence(int node, const std::string& name, std::vector<int> nodes, std::string blob,
               launcher::Member::FenceHandler on_done);
    void relay(int source, int destination, std::string bytes);
    void take_relays(int node, launcher::Member::RelayHandler handler);
    int node_count() const { return nodes_; }
    int fences() const { return fences_done_; }
    int relays() const { return relays_done_; }

private:
    struct Gathering {
        std::map<int, std::string> blobs;
        std::vector<launcher::Member::FenceHandler> handlers;
    };
    asio::io_context& io_;
    int nodes_;
    std::vector<launcher::Member::RelayHandler> relays_;
    std::map<std::string, Gathering> gatherings_;
    int fences_done_ = 0, relays_done_ = 0;
};

struct RankOutcome {
    std::optional<int> exit_code, signal;
    launcher::MpiService::Departure departure;
    std::string output;
};

struct MpiRunOptions {
    MpiMode mode = MpiMode::pmix;
    std::vector<int> ranks_per_node = {2};
    std::vector<std::string> argv;
    std::vector<std::string> environment;  ///< "NAME=value" of every rank, on top of PATH and HOME
    int generation = 0;
    bool asked_for = false;
    std::optional<std::chrono::microseconds>
        kill_after;  ///< SIGKILL to the last rank, so long after its start
    std::chrono::seconds patience{60};
    std::function<void(std::vector<std::string>&)> edit_environment;  ///< of each rank, last
};

struct MpiRunResult {
    std::vector<RankOutcome> ranks;  ///< by rank
    std::vector<std::string> failures, warnings, broken;
    std::optional<int> exit_code;  ///< what a rank that failed wanted to exit with
    bool hung = false;
    int fences = 0, relays = 0;
    std::vector<std::string> left_behind;  ///< files of the job that are still there
    std::string helper_output;

    bool all_exited_zero() const;
};

/// Starts the services and the ranks, waits for their end as an agent would: a failure kills all.
/// Blocks.
MpiRunResult run_mpi(const MpiRunOptions& options);

}  // namespace autolaunch::testing
