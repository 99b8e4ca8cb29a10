#pragma once
// One MPI communicator for data, one for abort notices, and the loop in which a rank waits on both.
#include "base/deadline.hpp"
#include "comm/abort_state.hpp"
#include "comm/mpi/mpi_runtime.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::mpi {

/// Owner: the backend. Threads: one, except abort(), status() and abort_reason(). Blocks: run() and the factories,
/// until the operation is done or the timeout passed.
class Group {
public:
    static std::unique_ptr<Group> world(std::chrono::milliseconds timeout);
    /// Null for a negative color. Collective over `parent`.
    static std::unique_ptr<Group> split(Group& parent, int color, int key);
    /// Cancels what is pending and frees the communicators; after an abort it leaves them to the process's end.
    ~Group();
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    MPI_Comm data() const noexcept { return data_; }

    /// Starts an operation by `start`, which calls one MPI_I… function, and waits for it. A failure aborts the group.
    MPI_Status run(const char* name, const std::function<int(MPI_Request*)>& start);
    /// As run(), for `count` operations that go on side by side. The first `receives` of them are MPI_Irecv: when the
    /// call fails these are withdrawn, so that nothing is written late. Other operations MPI cannot withdraw.
    std::vector<MPI_Status> run_all(const char* name, std::size_t count, std::size_t receives,
                                    const std::function<int(MPI_Request* requests)>& start);
    void throw_if_aborted();
    void abort(const std::string& reason);
    /// Looks for a notice first, unless a collective is doing so.
    CommunicatorStatus status();
    /// Empty while nothing is aborted.
    std::string abort_reason() const { return abort_state_.reason(); }

private:
    static constexpr std::size_t kNoticeBytes = 512;

    Group(std::shared_ptr<Runtime> runtime, MPI_Comm data, std::chrono::milliseconds timeout);
    bool test(std::span<MPI_Request> requests, std::span<MPI_Status> statuses, const char* name);
    void wait(std::span<MPI_Request> requests, std::span<MPI_Status> statuses, const char* name);
    void withdraw(std::span<MPI_Request> receives);
    void listen();
    void poll_notices();
    void notify_peers();

    std::shared_ptr<Runtime> runtime_;
    MPI_Comm data_ = MPI_COMM_NULL;
    MPI_Comm control_ = MPI_COMM_NULL;
    std::chrono::milliseconds timeout_;
    int rank_ = 0;
    int size_ = 1;
    AbortState abort_state_;
    std::mutex mpi_mutex_;  // around what abort() shares with the collectives: requests and notices; before serialize()
    bool notified_ = false;
    MPI_Request notice_request_ = MPI_REQUEST_NULL;
    struct Notices {
        std::array<char, kNoticeBytes> in{};
        std::array<char, kNoticeBytes> out{};
        std::vector<MPI_Request> sends;
    };
    std::shared_ptr<Notices> notices_ = std::make_shared<Notices>();
};

}  // namespace autolaunch::mpi
