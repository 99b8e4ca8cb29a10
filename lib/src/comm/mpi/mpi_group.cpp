#include "comm/mpi/mpi_group.hpp"

#include "comm/kept_memory.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

namespace autolaunch::mpi {
namespace {

constexpr int kNoticeTag = 1;
/// Between two looks at the clock and at the notices; 3 µs or so.
constexpr int kTestsInARow = 32;
/// A millisecond or so. MPI_Test itself yields where the MPI knows of more ranks than cores;
/// elsewhere a yield gives whole time slices to other programs on a busy machine.
constexpr int kRowsBeforeYield = 300;

}  // namespace

Group::Group(std::shared_ptr<Runtime> runtime, MPI_Comm data, std::chrono::milliseconds timeout)
    : runtime_(std::move(runtime)), data_(data), timeout_(timeout) {
    {
        const auto turn = runtime_->serialize();
        // Errors come back as codes: an error handler that ends the process would hide our own
        // report.
        check(MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN), "set an MPI error handler");
        check(MPI_Comm_rank(data_, &rank_), "ask MPI for the rank");
        check(MPI_Comm_size(data_, &size_), "ask MPI for the size");
    }
    run_one("creating the communicator",
            [&](MPI_Request* request) { return MPI_Comm_idup(data_, &control_, request); });
    listen();
}

std::unique_ptr<Group> Group::world(std::chrono::milliseconds timeout) {
    auto runtime = Runtime::acquire();
    runtime->require_this_thread();
    MPI_Comm data = MPI_COMM_NULL;
    {
        const auto turn = runtime->serialize();
        check(MPI_Comm_dup(MPI_COMM_WORLD, &data), "duplicate MPI_COMM_WORLD");
    }
    return std::unique_ptr<Group>(new Group(std::move(runtime), data, timeout));
}

std::unique_ptr<Group> Group::split(Group& parent, int color, int key) {
    // MPI_Comm_split has no nonblocking form: when all ranks have come this far, it will not block
    // for long.
    parent.run_one("split",
                   [&](MPI_Request* request) { return MPI_Ibarrier(parent.data_, request); });
    MPI_Comm data = MPI_COMM_NULL;
    {
        const std::scoped_lock lock(parent.mpi_mutex_);
        const auto turn = parent.runtime_->serialize();
        check(MPI_Comm_split(parent.data_, color < 0 ? MPI_UNDEFINED : color, key, &data),
              "split a communicator");
    }
    if (color < 0)
        return nullptr;
    return std::unique_ptr<Group>(new Group(parent.runtime_, data, parent.timeout_));
}

Group::~Group() {
    const std::scoped_lock lock(mpi_mutex_);
    const auto turn = runtime_->serialize();
    if (abort_state_.aborted())
        keep_until_exit(notices_);
    int finalized = 0;
    if (abort_state_.aborted() || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0)
        return;
    if (notice_request_ != MPI_REQUEST_NULL) {
        MPI_Cancel(&notice_request_);
        MPI_Wait(&notice_request_, MPI_STATUS_IGNORE);
    }
    if (control_ != MPI_COMM_NULL)
        MPI_Comm_free(&control_);
    MPI_Comm_free(&data_);
}

void Group::listen() {
    const auto turn = runtime_->serialize();
    check(MPI_Irecv(notices_->in.data(), int(kNoticeBytes), MPI_CHAR, MPI_ANY_SOURCE, kNoticeTag,
                    control_, &notice_request_),
          "listen for aborts");
}

template <class Start>
void Group::run_one(const char* name, const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    run({{&request, 1}, {&status, 1}, 0, name}, [&] { return start(&request); });
}

// Who receives need not look for notices here: nothing comes from ranks that have aborted, and then
// wait() looks.
void Group::ready(const Pending& pending) {
    runtime_->require_this_thread();
    if (pending.receives == 0)
        return throw_if_aborted();
    abort_state_.throw_if_aborted();
}

void Group::give_up(const Pending& pending, const Error& error) {
    constexpr int kTests = 1000;  // a receive that is half through may need its sender
    abort(error.what());          // unless it is already
    const std::scoped_lock lock(mpi_mutex_);
    const auto turn = runtime_->serialize();
    for (MPI_Request& request : pending.requests.first(pending.receives)) {
        if (request == MPI_REQUEST_NULL || MPI_Cancel(&request) != MPI_SUCCESS)
            continue;
        int done = 0;
        for (int i = 0; i < kTests && done == 0; ++i)
            if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
                break;
    }
}

void Group::wait(const Pending& pending) {
    if (test(pending))
        return;
    const Deadline deadline = Deadline::after(timeout_);
    for (int rows = 1; !test(pending); ++rows) {
        abort_state_.throw_if_aborted();
        if (deadline.passed()) {
            throw TimeoutError(
                fmt::format("rank {} waited {} s in {}", rank_,
                            std::chrono::duration<double>(timeout_).count(), pending.name),
                "a rank is stuck elsewhere or has not called the collective");
        }
        if (rows > kRowsBeforeYield)
            ::sched_yield();
    }
}

// Looks for notices, too, unless all is done.
bool Group::test(const Pending& pending) {
    const std::scoped_lock lock(mpi_mutex_);
    const auto turn = runtime_->serialize();
    for (int i = 0; i < kTestsInARow; ++i)
        if (is_done(pending))
            return true;
    poll_notices();
    // An abort() that could not call MPI left the telling to this thread.
    if (abort_state_.aborted())
        notify_peers();
    return false;
}

bool Group::is_done(const Pending& pending) {
    int done = 0;
    const int code = MPI_Testall(static_cast<int>(pending.requests.size()), pending.requests.data(),
                                 &done, pending.statuses.data());
    for (const MPI_Status& status : pending.statuses) {  // one of them says what the code does not
        if (code != MPI_ERR_IN_STATUS)
            break;
        if (status.MPI_ERROR != MPI_ERR_PENDING)
            check(status.MPI_ERROR, pending.name);
    }
    check(code, pending.name);
    return done != 0;
}

void Group::throw_if_aborted() {
    if (runtime_->may_call_here()) {
        const std::scoped_lock lock(mpi_mutex_);
        const auto turn = runtime_->serialize();
        poll_notices();
        // An abort() that could not call MPI left the telling to this thread.
        if (abort_state_.aborted())
            notify_peers();
    }
    abort_state_.throw_if_aborted();
}

CommunicatorStatus Group::status() {
    std::unique_lock lock(mpi_mutex_, std::try_to_lock);
    if (lock && runtime_->may_call_here()) {
        if (const auto turn = runtime_->try_serialize()) {
            poll_notices();
            if (abort_state_.aborted())
                notify_peers();
        }
    }
    return abort_state_.status();
}

void Group::poll_notices() {
    if (notice_request_ == MPI_REQUEST_NULL)
        return;
    int arrived = 0;
    if (MPI_Test(&notice_request_, &arrived, MPI_STATUS_IGNORE) != MPI_SUCCESS || arrived == 0)
        return;
    notices_->in.back() = '\0';
    abort_state_.abort(notices_->in.data());
    runtime_->never_finalize();
    notified_ = true;  // whoever sent it has told everybody
}

void Group::notify_peers() {
    if (notified_)
        return;
    notified_ = true;
    runtime_->never_finalize();
    if (control_ == MPI_COMM_NULL)
        return;
    const std::string reason = abort_state_.reason();
    std::memcpy(notices_->out.data(), reason.data(), std::min(reason.size(), kNoticeBytes - 1));
    // Never waited for: short messages leave at once, and a peer that is gone must not hold up this
    // rank.
    notices_->sends.assign(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_)
            continue;
        MPI_Isend(notices_->out.data(), int(kNoticeBytes), MPI_CHAR, peer, kNoticeTag, control_,
                  &notices_->sends[static_cast<std::size_t>(peer)]);
    }
    int done = 0;
    MPI_Testall(size_, notices_->sends.data(), &done, MPI_STATUSES_IGNORE);
}

void Group::abort(const std::string& reason) {
    if (!abort_state_.abort(fmt::format("rank {}: {}", rank_, reason)))
        return;
    runtime_->never_finalize();
    if (!runtime_->may_call_here())
        return;
    // Else a rank of this group that is in a call, or asks for the status, tells the others.
    const auto lock = try_for_a_moment(mpi_mutex_);
    if (!lock)
        return;
    if (const auto turn = runtime_->try_serialize())
        notify_peers();
}

}  // namespace autolaunch::mpi
