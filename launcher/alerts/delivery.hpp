#pragma once
#include "alerts/channel.hpp"

#include <autolaunch/error.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher::alerts {

/// Notices on their way to everybody who is to have them. One that cannot be told waits for the
/// next try; its channel is asked ever more seldom (10 s to 10 min), and a line says so once until
/// it works again.
///
/// Owner: the process of the job's alerts. Threads: its one. Blocks: send(), on the channels.
class Delivery {
public:
    /// `say` gets a line for each channel that dies, comes back, or loses something.
    Delivery(std::vector<std::unique_ptr<MessageChannel>> channels,
             std::function<void(const std::string&)> say);

    /// To the channels that its alerts name; each gets what is for it.
    void add(const Notice& notice, const AlertedJob& job);
    /// Tells what waits, where a channel is due; the healthy ones first. `firing` is said again to
    /// those who would forget it.
    void send(const std::vector<FiringAlert>& firing, const AlertedJob& job,
              std::chrono::steady_clock::time_point now);
    /// The last tries: all channels are due. What is still left is said.
    void finish(const Deadline& deadline);

private:
    using Time = std::chrono::steady_clock::time_point;
    struct Message {
        Notice notice;
        AlertedJob job;
    };
    struct Way {
        std::unique_ptr<MessageChannel> channel;
        std::deque<Message> waiting;
        bool dead = false;
        std::chrono::seconds pause{0};
        Time next_try{};
        Time kept_alive{};
        std::size_t lost = 0;
    };

    static bool is_for(const FiringAlert& alert, const AlertChannelSpec& channel);
    void tell_waiting(Way& way, Time now, const Deadline& deadline);
    void keep_alive(Way& way, const std::vector<FiringAlert>& firing, const AlertedJob& job,
                    Time now);
    void failed(Way& way, const Error& error, Time now);
    void succeeded(Way& way);

    std::vector<Way> ways_;
    std::function<void(const std::string&)> say_;
};

}  // namespace autolaunch::launcher::alerts
