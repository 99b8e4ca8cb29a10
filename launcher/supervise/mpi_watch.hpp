#pragma once
#include "pmi/mpi_library_watch.hpp"
#include "pmi/mpi_service.hpp"
#include "pmi/unserved_mpi.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Looks now and then whether ranks that MPI is only offered to use it without having come for it:
/// each would be rank 0 of 1, and end with 0 all the same. And whether some wait in MPI_Init for
/// others that do not come.
///
/// Owner: MpiRanks. Threads: the agent's one. Blocks: a look reads /proc, some hundred microseconds
/// a process; there are five in the first minute and one in five minutes after that, and some more
/// while MPI libraries are opened, for programs that are over soon.
class MpiWatch {
public:
    struct Watched {
        int rank = 0, local_rank = 0;
        pid_t pid = -1;
        bool running = true;
        bool alone = false;  ///< was seen in MPI, without its variables
    };
    struct Handlers {
        std::function<void(int rank, const MpiService::Fault& fault)> on_fault;
        std::function<void(const std::string& text)> warn;
    };

    /// `environment` is what ranks start from.
    MpiWatch(asio::io_context& io, MpiService& service, const std::vector<std::string>& environment,
             Handlers handlers);

    void add(const Watched& rank);
    /// As its environment has them.
    void set_identity(const std::string& name_space, const std::string& port);
    void ended(int rank);

private:
    void wait();
    void look();
    void look_for_strays();
    void look_soon();
    void look_for_short_ones();
    void report_alone(int rank, const UnservedMpi& found);
    void look_for_latecomers();

    MpiService& service_;
    Handlers handlers_;
    asio::steady_timer timer_;
    std::vector<Watched> ranks_;
    std::string name_space_, port_;
    std::size_t looks_ = 0;
    asio::steady_timer soon_;
    int since_open_ = 0;  ///< looks since a library was opened
    int looks_left_ = 800;        ///< of those: programs that open one all the time are no matter
    MpiLibraryWatch library_watch_;
    bool over_ = false;  ///< a rank has failed here
    bool warned_of_library_ = false, warned_of_waiting_ = false;
};

}  // namespace autolaunch::launcher
