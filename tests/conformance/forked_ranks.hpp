#pragma once
// Ranks as real processes: fork()ed children of a test.
#include "base/unique_fd.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace autolaunch::conformance {

/// Forks `size` children that run body(rank), and waits for all; those left after `limit` are
/// killed. Returns their wait statuses. A body that throws prints why on stderr and exits with 1.
std::vector<int> run_forked_ranks(int size, const std::function<void(int rank)>& body,
                                  std::chrono::seconds limit = std::chrono::seconds(100));

/// Carries one short text from one process to `readers` others; made before the fork.
class Broadcast {
public:
    explicit Broadcast(int readers);
    void publish(const std::string& text);
    /// Throws when nothing came in time.
    std::string fetch(std::chrono::milliseconds timeout);

private:
    int readers_;
    UniqueFd read_end_;
    UniqueFd write_end_;
};

}  // namespace autolaunch::conformance
