#pragma once
#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Lets PMIx have connections of our own user only.
///
/// PMIx listens on a TCP port of the loopback, which every user of the machine can reach, believes
/// what a peer says of its uid ("native" security), and waits for the peer's words on the thread
/// that serves all. So the question is asked before PMIx sees a byte: autolaunch-pmixd has its own
/// accept(), which the PMIx library calls instead of the C library's, and the kernel says whose the
/// other end is (base/socket_owner.hpp).
///
/// Owner: PmixServer, one a process, before PMIx starts. Threads: admits() on PMIx's, prove() on
/// the main one. Blocks: prove(), kPatience at most.
class ConnectionGuard {
public:
    static constexpr std::chrono::seconds kPatience{5};

    /// `on_stranger` gets a sentence about the first connection of another user, on PMIx's thread.
    explicit ConnectionGuard(std::function<void(const std::string& text)> on_stranger);
    ConnectionGuard(const ConnectionGuard&) = delete;
    ConnectionGuard& operator=(const ConnectionGuard&) = delete;
    ~ConnectionGuard();

    bool admits(int socket);
    /// Connects to PMIx's own listener and checks that we are asked, and that the kernel tells.
    /// Throws Error: it would let everybody in, or nobody.
    void prove(const sockaddr_storage& listener);

private:
    enum class Verdict { own, stranger, unknown };
    struct Judgement {
        Verdict verdict = Verdict::unknown;
        std::string text;  ///< of a stranger, or why it is unknown
    };

    static Judgement judge(int socket);
    bool is_proof(int socket) const;

    std::function<void(const std::string&)> on_stranger_;
    std::atomic<bool> told_{false};
    mutable std::mutex mutex_;
    std::condition_variable answered_;
    std::optional<sockaddr_storage> proof_;  ///< our end of prove()'s connection
    std::optional<Judgement> answer_;
};

/// Where PMIx listens, from what it gives a rank: a variable that ends in "tcp4://ADDRESS:PORT".
/// Throws Error when it says no such thing. Pure.
sockaddr_storage pmix_listener(const std::vector<std::string>& environment);

}  // namespace autolaunch::launcher
