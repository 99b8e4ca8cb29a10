#pragma once
#include "allocation/roster.hpp"
#include "base/deadline.hpp"
#include "control/member.hpp"
#include "plan/mpi_choice.hpp"
#include "pmi/mpi_environment.hpp"
#include "spawn/spawn.hpp"

#include <asio/io_context.hpp>

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The generation whose MPI ranks are to find each other.
struct MpiJob {
    Roster roster;
    int generation = 0;
    std::string job_name;  ///< no other job of this user has it at the same time
    std::string secret;    ///< the head's, of this generation: makes names that nobody can guess
    std::filesystem::path
        directory;                ///< made and removed by the service; short, for this user alone
    std::filesystem::path log;    ///< what a helper process prints
    bool oversubscribed = false;  ///< this node's ranks outnumber the CPUs that they may use
    std::vector<std::string>
        environment;         ///< "NAME=value" that ranks start from: the user's settings
    bool asked_for = false;  ///< the user has named the mode; else it is a guess
    bool offered = false;    ///< not even that: most ranks will not use it
};

/// What one rank is started with, besides its plan.
struct MpiRankStart {
    MpiEnvironment environment;
    std::optional<InheritedFd> inherited_fd;
};

/// Serves the MPI ranks of this node in one generation: who they are, where the others are. Between
/// nodes it speaks through Member.
///
/// Owner: Generation. Threads: the agent's one. Blocks: await_ready(), at most until its deadline.
class MpiService {
public:
    /// A rank has failed, whatever its process does.
    struct Fault {
        std::string why;              ///< as in "rank 3 <why>"
        int exit_code = 1;            ///< what its end counts as, when we make it end
        bool ends_by_itself = false;  ///< soon; else it waits to be ended
    };
    struct Handlers {
        /// The rank called MPI_Abort, broke the protocol or waits for what will never come.
        std::function<void(int rank, const Fault& fault)> on_rank_failed;
        /// The service is of no use any more, and this node's ranks with it.
        std::function<void(const std::string& why)> on_broken;
        std::function<void(const std::string& text)> on_warning;
    };
    /// How a rank left, seen from MPI.
    static constexpr const char* kWaitedFor =
        "ended without MPI_Init, for which the other ranks wait; is each rank meant to use MPI "
        "alone? Then say --mpi none";
    static constexpr const char* kAlone =
        "; is each rank meant to use MPI alone? Then say --mpi none";
    struct Departure {
        std::string why;     ///< as in "rank 3 <why>"; empty: nothing to say
        bool fatal = false;  ///< others wait for it, or nothing that it did can be right
    };

    virtual ~MpiService() = default;
    /// The process that helps; nobody else may reap it. -1: there is none.
    virtual pid_t helper() const { return -1; }
    /// Returns once ranks may start. Throws Error.
    virtual void await_ready(Deadline deadline) = 0;
    virtual MpiRankStart start_of(int local_rank) = 0;
    /// The rank runs, or could not be started.
    virtual void was_started(int local_rank) = 0;
    /// What an ended rank did wrong as MPI knows it, also when its end has overtaken its handler:
    /// what it sent is read.
    virtual std::optional<Fault> fault_of(int local_rank) = 0;
    /// The rank ended with exit code 0: did it take part to the end? Call it once for each such
    /// rank.
    virtual Departure departure(int local_rank) = 0;
    /// It has come to MPI_Init, by now.
    virtual bool has_connected(int local_rank) = 0;
};

/// Starts the service; handlers are called from the event loop. `mode` is not none. Throws Error:
/// no autolaunch-pmixd, no directory.
std::unique_ptr<MpiService> start_mpi_service(asio::io_context& io, MpiMode mode, const MpiJob& job,
                                              Member& member, MpiService::Handlers handlers);

}  // namespace autolaunch::launcher
