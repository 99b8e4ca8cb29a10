#pragma once
#include "doctor/rails.hpp"

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <cstddef>
#include <vector>

namespace autolaunch::launcher {

/// Asks each target, through the rail's own interface, for a sign of life, without privileges: an
/// ICMP echo where the kernel lets this user send one (net.ipv4.ping_group_range), else a datagram
/// to a port that nobody listens on, which the target's kernel refuses. A firewall that drops both
/// looks like a rail that is down.
///
/// Owner: the meeting. Threads: one. Blocks: never.
class RailProbe {
public:
    explicit RailProbe(const std::vector<RailTarget>& targets);
    /// Takes what has come, and asks again from time to time. True when all have answered or their
    /// second is over.
    bool step();
    std::vector<Reach> answers() const;

private:
    struct Question {
        UniqueFd socket;
        bool is_icmp = false, is_ipv6 = false;
        Reach answer = Reach::silent;
    };
    static Question open(const RailTarget& target);
    static void ask(Question& question);
    static void listen(Question& question);

    std::vector<Question> questions_;
    Deadline deadline_, ask_again_;
};

}  // namespace autolaunch::launcher
