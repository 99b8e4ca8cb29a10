#include "placement_watch/gpu_inquiry.hpp"

#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace autolaunch::launcher {

GpuInquiry::GpuInquiry(asio::io_context& io, Options options)
    : options_(std::move(options)), readable_(io), timer_(io) {}

bool GpuInquiry::ask(const std::vector<pid_t>& ranks,
                     std::function<void(const ComputeProcesses&)> on_answer) {
    if (on_answer_ || !dying().empty())
        return false;
    try {
        child_ = HelperProcess([&](int output) {
            write_all(output,
                      encode_compute_processes(
                          read_compute_processes(ranks, options_.library, options_.proc_root)),
                      "the pipe");
        });
        readable_.assign(::fcntl(child_.output(), F_DUPFD_CLOEXEC, 0));
    } catch (const std::exception&) {  // no process or descriptor is left: the ranks need them more
        child_.end();
        return false;
    }
    text_.clear();
    on_answer_ = std::move(on_answer);
    timer_.expires_after(options_.limit);
    timer_.async_wait([this, question = ++question_](const std::error_code& canceled) {
        if (!canceled && on_answer_ && question == question_)
            answer({{},
                    true,
                    fmt::format("NVIDIA's driver did not answer within {:g} s",
                                std::chrono::duration<double>(options_.limit).count())});
    });
    wait_for_answer();
    return true;
}

void GpuInquiry::wait_for_answer() {
    readable_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this, question = question_](const std::error_code& canceled) {
                             if (canceled || !on_answer_ || question != question_)
                                 return;
                             if (child_.read_some(text_))
                                 return wait_for_answer();
                             answer(decode_compute_processes(text_));
                         });
}

void GpuInquiry::answer(const ComputeProcesses& seen) {
    put_away();
    std::exchange(on_answer_, nullptr)(seen);
}

void GpuInquiry::cancel() {
    put_away();
    on_answer_ = nullptr;
}

// One that has answered is about to end; nobody waits for it here.
void GpuInquiry::put_away() {
    timer_.cancel();
    if (readable_.is_open())
        readable_.close();
    child_.kill();
    if (!child_.gone())
        dying_.push_back(std::move(child_));
}

std::vector<pid_t> GpuInquiry::dying() {
    std::erase_if(dying_, [](HelperProcess& child) { return child.gone(); });
    std::vector<pid_t> pids;
    for (const HelperProcess& child : dying_)
        pids.push_back(child.pid());
    return pids;
}

}  // namespace autolaunch::launcher
