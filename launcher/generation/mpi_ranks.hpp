#pragma once
#include "base/deadline.hpp"
#include "control/member.hpp"
#include "exit_codes/rank_exited.hpp"
#include "generation/mpi_watch.hpp"
#include "plan/launch_plan.hpp"
#include "pmi/mpi_service.hpp"
#include "spawn/spawn.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The MPI side of one generation: gives ranks what their MPI needs to find the others, and
/// corrects what their ends look like by what MPI knows of them.
///
/// Owner: Generation. Threads: the agent's one. Blocks: the constructor, until ranks may start.
class MpiRanks {
public:
    struct Callbacks {
        std::function<void(const std::string& text)> warn;
        std::function<void(int rank)> kill;  ///< the rank, if it still runs
        std::function<void()> kill_all;      ///< this node's ranks
    };
    struct Context {
        asio::io_context& io;
        const LaunchPlan& plan;
        const Roster& roster;
        Member& member;
        std::filesystem::path socket_directory;
        int generation = 0;
        std::string secret;                    ///< of the generation
        std::vector<std::string> environment;  ///< of a rank, as planned
    };

    /// Throws Error.
    MpiRanks(const Context& context, Deadline deadline, Callbacks callbacks);

    /// Adds to what the rank is started with.
    void prepare(int local_rank, ChildSpec& spec);
    void was_started(int rank, int local_rank, pid_t pid);
    pid_t helper() const { return service_->helper(); }
    /// A rank that called MPI_Abort ends with the code it gave; one that left the others waiting
    /// has failed.
    void correct(RankExited& end);
    /// "called MPI_Abort with error code 3", as in "rank 3 <why>"; empty: MPI knows of nothing.
    std::string fault_of(int rank) const;

private:
    bool note(int rank, const MpiService::Fault& fault);
    void on_fault(int rank, const MpiService::Fault& fault);

    asio::io_context& io_;
    Callbacks callbacks_;
    std::map<int, MpiService::Fault> faults_;  ///< by rank
    std::list<asio::steady_timer> patience_;   ///< with ranks that should end by themselves
    std::size_t running_;                      ///< ranks that have not ended
    bool broken_ = false;                      ///< the service is, and the ranks were killed for it
    bool over_ = false;  ///< a rank has failed, or all have ended: what else happens means nothing
    std::shared_ptr<int> alive_ =
        std::make_shared<int>(0);  ///< a timer that has run out already checks it
    std::unique_ptr<MpiService> service_;
    std::optional<MpiWatch> watch_;  ///< since ranks may start
};

}  // namespace autolaunch::launcher
