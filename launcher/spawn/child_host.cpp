#include "spawn/child_host.hpp"

#include <csignal>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

Child OwnChild::start(const ChildSpec& spec, EndHandler on_end) {
    Child child = make_(spec);
    pid_ = child.pid;
    on_end_ = std::move(on_end);
    pidfd_.assign(child.pidfd.release());
    wait_for_end();
    return child;
}

void OwnChild::signal_group(int signal) {
    if (pid_ > 0)
        ::kill(-pid_, signal);
}

void OwnChild::wait_for_end() {
    pidfd_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const std::error_code& error) {
                          if (error)
                              return;
                          const auto end = reap_child(pid_, pidfd_.native_handle());
                          if (!end)
                              return wait_for_end();
                          pid_ = -1;
                          pidfd_.close();
                          const auto on_end = std::move(on_end_);
                          on_end(*end);
                      });
}

}  // namespace autolaunch::launcher
