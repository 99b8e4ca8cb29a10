#pragma once
#include "control/job_key.hpp"

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct ssl_ctx_st;
struct ssl_st;
struct bio_method_st;

/// TLS 1.3 with a pre-shared key, over OpenSSL: the only place that knows it. No certificates,
/// tickets, renegotiation, compression or early data. docs/adr/0009 has the choice of the key
/// exchange.
namespace autolaunch::launcher {

enum class TlsEnd { client, server };

/// How the secret of a connection is agreed on. Both ends take it from where the key comes from.
enum class TlsKeyExchange {
    psk,        ///< from the pre-shared key alone: for a key that lives no longer than the job
    psk_ecdhe,  ///< with X25519: who learns the key later still cannot read what was recorded
};

/// What the sessions of one end have in common. Owner: ControlSecurity. Threads: one at a time.
/// Blocks: never.
class TlsContext {
public:
    TlsContext(TlsEnd end, TlsKeyExchange exchange);

private:
    friend class TlsSession;
    struct Deleter {
        void operator()(ssl_ctx_st* context) const;
        void operator()(bio_method_st* method) const;
    };
    TlsEnd end_;
    std::unique_ptr<bio_method_st, Deleter> wire_method_;
    std::unique_ptr<ssl_ctx_st, Deleter> context_;
};

/// The secret of one job and the name under which both ends know it.
struct TlsSecret {
    JobKey key;
    std::string name;
};

/// want_read and want_write: again once the socket is readable or writable, which it may be at
/// once.
enum class TlsStep { done, want_read, want_write, closed, failed };

/// One connection over a connected, non-blocking socket, which it does not own. Its address must
/// not change.
///
/// Owner: the connection. Threads: one at a time. Blocks: never. Memory: about 13 KiB at rest.
class TlsSession {
public:
    TlsSession(const TlsContext& context, int socket, std::shared_ptr<const TlsSecret> secret);
    TlsSession(const TlsSession&) = delete;
    TlsSession& operator=(const TlsSession&) = delete;

    /// The client's last flight is held back, to go with its first message: write, flush or
    /// shut_down sends it.
    TlsStep handshake();
    /// Bytes that were not taken are given again, followed by more or not: never other ones.
    TlsStep write(std::string_view bytes, std::size_t& written);
    /// Sends what was held back; done where nothing was.
    TlsStep flush();
    TlsStep read(std::span<char> into, std::size_t& got);
    /// Tells the peer that nothing more comes.
    void shut_down();

    /// Of a handshake that failed: the ends have different keys. Known to both.
    bool keys_differ() const { return keys_differ_; }
    const std::string& failure() const { return failure_; }

private:
    friend struct TlsCallbacks;
    struct Deleter {
        void operator()(ssl_st* session) const;
    };
    /// What OpenSSL reads from and writes to.
    struct Wire {
        int socket = -1;
        std::size_t handshake_bytes_left = 0;  // a stranger may send no more
        bool counts = true;                    // until the handshake is done
        bool holds = false;                    // what is written waits in `held`
        bool ended = false;                    // the peer closed it, or it was reset
        bool is_dry =
            true;  // all that came was read: wait before the next recv(2), which would fail
        std::string held = {};
        ssize_t send(std::string_view record);
    };
    TlsStep step_of(int result);

    std::shared_ptr<const TlsSecret> secret_;
    Wire wire_;
    std::unique_ptr<ssl_st, Deleter> session_;
    bool keys_differ_ = false;
    std::string failure_;
};

}  // namespace autolaunch::launcher
