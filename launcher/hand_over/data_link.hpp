#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "control/tls_session.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// For another node's mover to answer.
inline constexpr std::chrono::seconds kConnectTime{5};

/// Where a node's mover listens.
struct MoverAddress {
    std::string host;  ///< numeric
    std::uint16_t port = 0;
};

/// The key of one hand-over, which the head draws and sends over the job's own connections: who has
/// it is of the job. Shared by the links of a process, in any threads.
class LinkKey {
public:
    explicit LinkKey(const JobKey::Bytes& bytes);

private:
    friend class DataLink;
    std::shared_ptr<const TlsSecret> secret_;
    TlsContext client_, server_;
    std::mutex mutex_;  ///< while a session is made
};

/// A connection between two movers: TLS 1.3 with the hand-over's key. Every call ends by its
/// deadline, and throws Error where the other end is gone, too late, or has another key.
///
/// Owner: one. Threads: one at a time. Blocks: all calls.
class DataLink {
public:
    static DataLink connect(LinkKey& key, const MoverAddress& to, Deadline deadline);
    static DataLink accept(LinkKey& key, UniqueFd socket, Deadline deadline);

    void send(std::string_view bytes, Deadline deadline);
    void receive(std::span<char> into, Deadline deadline);

private:
    DataLink(LinkKey& key, UniqueFd socket, const TlsContext& context, Deadline deadline);
    void wait_for(TlsStep step, Deadline deadline);

    UniqueFd socket_;
    std::unique_ptr<TlsSession> session_;
};

/// A socket that listens on a free port of all addresses. Throws SystemError.
UniqueFd listen_anywhere(std::uint16_t& port);

}  // namespace autolaunch::launcher
