#pragma once
#include "pmi/mpi_library_watch.hpp"
#include "pmi/mpi_service.hpp"
#include "pmi/unserved_mpi.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Looks now and then whether ranks use MPI without having come to autolaunch for it: each would be
/// rank 0 of 1, and end with 0 all the same. And whether some wait in MPI_Init for others that do
/// not come.
///
/// Owner: MpiRanks. Threads: the agent's one. Blocks: a look reads /proc, some hundred microseconds
/// a process; there are five in the first minute and one in five minutes after that. For programs
/// that are over soon there are others until a rank has come: ten in a second, fewer where they
/// would take more than a thousandth of a CPU, and many for a second after an MPI library was
/// opened. Where MPI is only offered, those look only at what lacks our variables.
class MpiWatch {
public:
    struct Watched {
        int rank = 0, local_rank = 0;
        pid_t pid = -1;
        bool running = true;
        std::optional<UnservedMpi> alone = {};  ///< was seen in MPI, without its variables
        pid_t loaded = -1;                      ///< was seen with MPI that was not called yet
    };
    struct Handlers {
        std::function<void(int rank, const MpiService::Fault& fault)> on_fault;
        std::function<void(const std::string& text)> warn;
    };

    struct Program {
        const std::vector<std::string>& environment;  ///< what ranks start from
        bool has_mpi;                                 ///< else it is only offered
    };
    MpiWatch(asio::io_context& io, MpiService& service, const Program& program, Handlers handlers);

    void add(const Watched& rank);
    /// As its environment has them.
    void set_identity(const MpiNames& names);
    void ended(int rank);

private:
    void wait();
    void look();
    bool anyone_has_come() const;
    void look_for_strays();
    void look_soon();
    std::chrono::steady_clock::duration pause_between_looks() const;
    bool look_for_short_ones();
    bool look_for_short_one(Watched& rank);
    void report_some_alone();
    void report_alone(int rank, const UnservedMpi& found);
    void look_for_latecomers();

    MpiService& service_;
    const bool has_mpi_;
    Handlers handlers_;
    asio::steady_timer timer_;
    std::vector<Watched> ranks_;
    MpiNames names_;
    MpiStateReader states_;
    std::size_t looks_ = 0;
    asio::steady_timer soon_;
    int since_open_;        ///< looks since a library was opened
    int looks_left_ = 800;  ///< of those: programs that open one all the time are no matter
    std::chrono::steady_clock::duration last_look_{0};  ///< what it took
    MpiLibraryWatch library_watch_;
    /// A wait that is over may be behind our own end in the loop.
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);
    bool over_ = false;  ///< a rank has failed here
    bool warned_of_library_ = false, warned_of_waiting_ = false;
};

}  // namespace autolaunch::launcher
