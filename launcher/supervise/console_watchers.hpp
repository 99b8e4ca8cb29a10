#pragma once
#include "control/local_link.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Who looks at the head's console from elsewhere (`autolaunch attach`): each gets a copy of what
/// is written there, and once a second a line that says where the job is.
///
/// Owner: supervise(), on the head. Threads: one. Blocks: never.
class ConsoleWatchers {
public:
    ConsoleWatchers(asio::io_context& io) : timer_(io) {}

    void add(const std::shared_ptr<Caller>& caller, std::function<std::string()> status);
    void show(int to, std::string_view text);
    /// The job has ended.
    void finish(int exit_code, const std::string& outcome);

private:
    void tick();

    asio::steady_timer timer_;
    std::list<std::shared_ptr<Caller>> watchers_;
    std::function<std::string()> status_;
};

}  // namespace autolaunch::launcher
