#include "supervise/job_end_time.hpp"

#include <fcntl.h>

#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kQueryTime = std::chrono::seconds(30);  // a busy slurmctld; nobody waits

}  // namespace

JobEndTime::JobEndTime(asio::io_context& io, const LaunchPlan& plan, Handler on_known)
    : plan_(plan), on_known_(std::move(on_known)), answer_(io), timer_(io) {}

void JobEndTime::find_out() {
    if (std::exchange(asked_, true))
        return;
    if (plan_.ends_at)
        return on_known_(*plan_.ends_at);
    if (plan_.slurm_job_id.empty())
        return;
    query_.emplace(plan_.slurm_job_id);
    // The query closes its descriptor when it is over: the event loop needs one of its own.
    UniqueFd answer(::fcntl(query_->fd(), F_DUPFD_CLOEXEC, 0));
    if (!answer)
        return stop();
    std::error_code error;
    answer_.assign(answer.get(), error);
    if (error)
        return stop();
    answer.release();
    timer_.expires_after(kQueryTime);
    timer_.async_wait([this](const std::error_code& cancelled) {
        if (!cancelled)
            stop();
    });
    await_answer();
}

void JobEndTime::await_answer() {
    answer_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const std::error_code& error) {
                           if (!error && query_)
                               take_answer();
                       });
}

void JobEndTime::take_answer() {
    if (!query_->advance())
        return await_answer();
    const auto left = query_->time_left();
    stop();
    if (left)
        on_known_(std::chrono::system_clock::now() + *left);
}

void JobEndTime::stop() {
    query_.reset();
    timer_.cancel();
    std::error_code ignored;
    if (answer_.is_open())
        answer_.close(ignored);
}

}  // namespace autolaunch::launcher
