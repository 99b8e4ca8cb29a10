#pragma once
#include "alerts/alert_process.hpp"
#include "base/deadline.hpp"
#include "spawn/helper_process.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher::alerts {

/// The head's care for the process of its job's alerts: started when this node's agent leads the
/// job, started anew where it dies, waited for at the job's end. What it says are warnings.
///
/// Owner: the launch. Threads: the one that runs the context. Blocks: finish(), until its deadline.
class AlertWatch {
public:
    /// `say` shows a line to the user; it and `io` must outlive it. Without alerts or channels
    /// nothing is ever started.
    AlertWatch(asio::io_context& io, AlertTask task, std::function<void(const std::string&)> say);
    AlertWatch(const AlertWatch&) = delete;
    AlertWatch& operator=(const AlertWatch&) = delete;

    /// This agent leads the job from now on. Again: nothing.
    void begin();
    /// After the job's last event. True: all was told that could be; false: it did not come to its
    /// end, and is killed.
    bool finish(const Deadline& deadline);
    /// What it said since, for whoever prints it when no context runs any more.
    const std::vector<std::string>& last_words() const { return last_words_; }
    bool is_running() const { return started_; }

private:
    void start();
    void await();
    void take_lines(bool all);
    void died();

    AlertTask task_;
    std::function<void(const std::string&)> say_;
    HelperProcess process_;
    asio::posix::stream_descriptor output_;
    asio::steady_timer pause_;
    std::string text_;
    std::vector<std::string> last_words_;
    bool started_ = false, finishing_ = false, done_ = false;
    int deaths_ = 0;
};

}  // namespace autolaunch::launcher::alerts
