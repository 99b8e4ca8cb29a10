#pragma once
// One MPI communicator for data, one for abort notices, and the loop in which a rank waits on both.
#include "base/deadline.hpp"
#include "comm/abort_state.hpp"
#include "comm/mpi/mpi_runtime.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::mpi {

/// Operations that go on side by side, and where they are kept.
struct Pending {
    std::span<MPI_Request> requests;
    std::span<MPI_Status> statuses;  // as many
    std::size_t receives;            // the first of them: MPI_Irecv
    const char* name;                // what the user called
};

/// Owner: the backend. Threads: one, except abort(), status() and abort_reason(). Blocks: run() and
/// the factories, until the operation is done or the timeout passed.
class Group {
public:
    static std::unique_ptr<Group> world(std::chrono::milliseconds timeout);
    /// Null for a negative color. Collective over `parent`.
    static std::unique_ptr<Group> split(Group& parent, int color, int key);
    /// Cancels what is pending and frees the communicators; after an abort it leaves them to the
    /// process's end.
    ~Group();
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    MPI_Comm data() const noexcept { return data_; }

    /// Starts operations by `start`, which calls MPI_I… functions and returns their code, and waits
    /// for them. A failure aborts the group and withdraws the receives, so that nothing is written
    /// late; other operations MPI cannot withdraw.
    template <class Start>
    void run(const Pending& pending, const Start& start) {
        ready(pending);
        try {
            {
                const std::scoped_lock lock(mpi_mutex_);
                const auto turn = runtime_->serialize();
                check(start(), pending.name);
            }
            wait(pending);
        } catch (const Error& error) {
            give_up(pending, error);
            throw;
        }
    }
    void throw_if_aborted();
    void abort(const std::string& reason);
    /// Looks for a notice first, unless a collective is doing so.
    CommunicatorStatus status();
    /// Empty while nothing is aborted.
    std::string abort_reason() const { return abort_state_.reason(); }

private:
    static constexpr std::size_t kNoticeBytes = 512;

    Group(std::shared_ptr<Runtime> runtime, MPI_Comm data, std::chrono::milliseconds timeout);
    template <class Start>
    void run_one(const char* name, const Start& start);
    void ready(const Pending& pending);
    bool test(const Pending& pending);
    bool is_done(const Pending& pending);
    void wait(const Pending& pending);
    void give_up(const Pending& pending, const Error& error);
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
    std::mutex mpi_mutex_;  // around what abort() shares with the collectives: requests and
                            // notices; before serialize()
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
