#pragma once
#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct LiveRank {
    int rank = 0;
    pid_t pid = 0;
    std::string condition = {};  ///< process_condition()
};

/// "still waiting for rank 3 (pid 812), asked to stop 2 s ago; SIGKILL at 12:00:15, in 13 s". Many
/// are counted, so that the texts of alike nodes are equal; of those that cannot act, being stopped
/// or in the kernel, some are named always. Pure, but for the time zone.
std::string waiting_notice(const std::vector<LiveRank>& alive, std::size_t of,
                           std::chrono::milliseconds asked_ago, std::chrono::milliseconds left,
                           std::chrono::system_clock::time_point now);
/// "rank 3 (pid 812) did not end within 15 s after it was asked to stop, and was killed by
/// SIGKILL". Pure.
std::string killed_notice(const std::vector<LiveRank>& alive, std::size_t of,
                          std::chrono::milliseconds asked_ago);

/// "these processes did not end long after SIGKILL, and hang in the kernel: 812 (rank 3) …". Pure.
std::string hung_notice(const std::vector<LiveRank>& ranks);

/// Says which ranks a stop waits for, and which it had to kill.
///
/// Owner: the NodeSupervisor. Threads: the one that runs the context. Blocks: no.
class StopNotice {
public:
    struct Ranks {
        std::vector<LiveRank> alive;  ///< empty: nobody is waited for
        std::size_t of = 0;
    };
    using LookUp = std::function<Ranks()>;
    using Report = std::function<void(const std::string& text)>;

    /// `patience`: ranks that have not ended by then are named; later ever more rarely.
    StopNotice(asio::io_context& io, LookUp look_up, Report report,
               std::chrono::milliseconds patience = std::chrono::seconds(2));

    /// Nobody of this generation was asked to stop.
    void begin_generation();
    /// The screen would be still for the whole grace period: after some time who is waited for is
    /// said, but where the grace period is hardly longer. A further request tells another grace.
    void asked_to_end(std::chrono::milliseconds grace);
    /// SIGKILL is about to be sent. `tell`: after a failure the failure's screen says it.
    void killed(bool tell);

private:
    void look_after(std::chrono::milliseconds time);
    void say_who_is_waited_for();

    LookUp look_up_;
    Report report_;
    std::chrono::milliseconds patience_;
    asio::steady_timer timer_;
    std::optional<std::chrono::steady_clock::time_point> asked_at_;
    std::chrono::steady_clock::time_point kill_at_{};
};

}  // namespace autolaunch::launcher
