#pragma once
#include "base/unique_fd.hpp"
#include "pmi/pmixd/client_gate.hpp"

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
/// other end is (base/socket_owner.hpp). In the same way it has its own bind(), where the agent has
/// given it a socket to listen on: ranks were told of it before this process was started.
///
/// Owner: PmixServer, one a process, before PMIx starts. Threads: admits() on PMIx's, prove() on
/// the main one. Blocks: prove(), kPatience at most.
class ConnectionGuard {
public:
    static constexpr std::chrono::seconds kPatience{5};

    /// `on_refusal` gets a sentence about the first connection of another user, and about each
    /// second process of a rank (ClientGate), on PMIx's thread.
    explicit ConnectionGuard(std::function<void(const std::string& text)> on_refusal);
    ConnectionGuard(const ConnectionGuard&) = delete;
    ConnectionGuard& operator=(const ConnectionGuard&) = delete;
    ~ConnectionGuard();

    bool admits(int socket);
    /// PMIx shall listen on this socket, on which ranks may wait already, instead of on its own.
    void give_listener(UniqueFd listener);
    /// Ranks that wait may come: PMIx knows them.
    void open();
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

    friend int accept_guarded(int, sockaddr*, socklen_t*);
    friend int bind_guarded(int, const sockaddr*, socklen_t);
    void await_open();
    bool take_listener_as(int socket);
    bool is_only_client(int socket);

    std::function<void(const std::string&)> on_refusal_;
    ClientGate gate_;
    UniqueFd listener_;  ///< until PMIx binds its own
    bool is_open_ = false;
    std::condition_variable opened_;
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
