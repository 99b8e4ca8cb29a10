#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "pmi/pmixd_message.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The agent's side of an autolaunch-pmixd: starts it, talks to it, kills it.
///
/// Owner: PmixService. Threads: the agent's one. Blocks: the constructor, until it runs;
/// await_ready(); receive_until(); 200 ms at most for its end, in the destructor, and for how it
/// ended, when it has hung up.
class PmixdProcess {
public:
    struct Handlers {
        std::function<void(pmixd::Message&&)>
            on_message;  ///< after await_ready(), from the event loop or receive()
        std::function<void(const std::string& why)>
            on_end;  ///< it is of no use any more; once, from the event loop
    };

    /// `log` gets what it and PMIx print. `listener` is the socket that it is to listen on, and
    /// stays the caller's; -1: it makes its own. Throws SpawnError or SystemError.
    PmixdProcess(asio::io_context& io, const std::filesystem::path& program,
                 const std::vector<std::string>& environment, const std::filesystem::path& log,
                 int listener, Handlers handlers);
    PmixdProcess(const PmixdProcess&) = delete;
    PmixdProcess& operator=(const PmixdProcess&) = delete;
    ~PmixdProcess();

    pid_t pid() const { return pid_; }
    void send(const pmixd::Message& message);
    /// Waits for the answer to Start. Throws Error: it said why, it ended, or it took too long.
    pmixd::Ready await_ready(Deadline deadline);
    /// Waits for nothing: Ready, or Failed, comes as a message.
    void expect_ready() { read_later(); }
    /// Hands on what has arrived by now. What it said before it released a rank is then known.
    void receive();
    /// The same, until `done`, its end or the deadline.
    void receive_until(const std::function<bool()>& done, Deadline deadline);

private:
    void read_later();
    void write_now();
    bool read_once();
    void end(const std::string& why);
    std::string describe_end() const;

    std::filesystem::path log_;
    Handlers handlers_;
    pid_t pid_ = -1;
    UniqueFd pidfd_;
    asio::posix::stream_descriptor socket_;
    pmixd::MessageReader reader_;
    std::string unsent_;
    bool writing_ = false;
    bool ended_ = false;
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);  ///< what is posted and waits checks it
};

/// Beside this program (where it is built or installed), else in PATH; empty: there is none.
std::filesystem::path find_pmixd(const std::vector<std::string>& environment);

}  // namespace autolaunch::launcher
