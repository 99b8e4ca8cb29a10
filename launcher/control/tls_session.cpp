#include "control/tls_session.hpp"

#include "control/openssl_library.hpp"

#include <autolaunch/error.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr const char* kCipherSuite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherSuiteNumber[] = {0x13, 0x01};
// A ClientHello has about 260 bytes, whatever the job is called.
constexpr std::size_t kHandshakeBytes = 4096;

std::string openssl_reason() {
    const unsigned long error = openssl().ERR_peek_error();
    const char* reason = error != 0 ? openssl().ERR_reason_error_string(error) : nullptr;
    return reason != nullptr ? reason : "no reason was given";
}

[[noreturn]] void refuse_tls(const char* doing) {
    throw Error(ErrorCode::system, std::string("OpenSSL cannot ") + doing + ": " + openssl_reason(),
                "is this OpenSSL built without TLS 1.3, or restricted by a policy?");
}

/// The ends of a handshake whose keys differ say so like this: the server finds it out and alerts
/// the client.
bool says_that_keys_differ(unsigned long error) {
    const int reason = ERR_GET_REASON(error);
    return reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
           reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
           reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR;
}

bool set_groups(SSL_CTX* context, std::string groups) {
    return openssl().SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, groups.data()) == 1;
}

void set_key_exchange(SSL_CTX* context, TlsEnd end, TlsKeyExchange exchange) {
    if (exchange == TlsKeyExchange::psk) {
        openssl().SSL_CTX_set_options(context, SSL_OP_ALLOW_NO_DHE_KEX);
        // OpenSSL 3.0 prefers ECDHE whenever it can be had, and has no switch. Ends without a
        // common group cannot have it.
        if (!set_groups(context, end == TlsEnd::client ? "P-256" : "P-384"))
            refuse_tls("set its groups");
    } else if (!set_groups(context, "X25519:P-256") &&
               !set_groups(context, "P-256")) {  // FIPS 140-2 has no X25519
        refuse_tls("set its groups");
    }
}

}  // namespace

/// What OpenSSL calls back.
struct TlsCallbacks {
    static SSL_SESSION* make_session(SSL* ssl, const TlsSecret& secret) {
        SSL_SESSION* session = openssl().SSL_SESSION_new();
        const SSL_CIPHER* cipher = openssl().SSL_CIPHER_find(ssl, kCipherSuiteNumber);
        if (session != nullptr && cipher != nullptr &&
            openssl().SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
            openssl().SSL_SESSION_set_cipher(session, cipher) == 1 &&
            openssl().SSL_SESSION_set1_master_key(session, secret.key.bytes().data(),
                                                  secret.key.bytes().size()) == 1)
            return session;
        openssl().SSL_SESSION_free(session);
        return nullptr;
    }

    static const TlsSecret& secret_of(const SSL* ssl) {
        return *static_cast<const TlsSession*>(openssl().SSL_get_ex_data(ssl, 0))->secret_;
    }

    /// The client names the key that it will use.
    static int use(SSL* ssl, const EVP_MD*, const unsigned char** name, std::size_t* name_bytes,
                   SSL_SESSION** session) {
        const TlsSecret& secret = secret_of(ssl);
        *session = make_session(ssl, secret);
        *name = reinterpret_cast<const unsigned char*>(secret.name.data());
        *name_bytes = secret.name.size();
        return *session != nullptr ? 1 : 0;
    }

    /// The server knows one name; for any other there is no key, and without one no handshake.
    static int find(SSL* ssl, const unsigned char* name, std::size_t name_bytes,
                    SSL_SESSION** session) {
        const TlsSecret& secret = secret_of(ssl);
        *session = nullptr;
        if (std::string_view(reinterpret_cast<const char*>(name), name_bytes) != secret.name)
            return 1;
        *session = make_session(ssl, secret);
        return *session != nullptr ? 1 : 0;
    }

    static TlsSession::Wire& wire_of(BIO* bio) {
        return *static_cast<TlsSession::Wire*>(openssl().BIO_get_data(bio));
    }

    /// -1 and "again", -1 for an error, 0 at the end.
    static int result_of(BIO* bio, ssize_t moved, int again) {
        if (moved > 0)
            return static_cast<int>(moved);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
            openssl().BIO_set_flags(bio, again | BIO_FLAGS_SHOULD_RETRY);
            return -1;
        }
        wire_of(bio).ended = true;
        return moved == 0 ? 0 : -1;
    }

    static int read(BIO* bio, char* into, int bytes) {
        openssl().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
        TlsSession::Wire& wire = wire_of(bio);
        auto wanted = static_cast<std::size_t>(bytes);
        if (wire.counts)
            wanted = std::min(wanted, wire.handshake_bytes_left);
        if (wanted == 0)
            return -1;
        if (std::exchange(wire.is_dry, false)) {
            errno = EAGAIN;
            return result_of(bio, -1, BIO_FLAGS_READ);
        }
        const ssize_t got = ::recv(wire.socket, into, wanted, 0);
        wire.is_dry = got > 0 && static_cast<std::size_t>(got) < wanted;
        if (wire.counts && got > 0)
            wire.handshake_bytes_left -= static_cast<std::size_t>(got);
        return result_of(bio, got, BIO_FLAGS_READ);
    }

    // OpenSSL's own socket BIO writes with write(2), which raises SIGPIPE.
    static int write(BIO* bio, const char* from, int bytes) {
        openssl().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
        TlsSession::Wire& wire = wire_of(bio);
        const std::string_view record(from, static_cast<std::size_t>(bytes));
        if (!wire.holds)
            return result_of(bio, wire.send(record), BIO_FLAGS_WRITE);
        wire.held += record;
        return bytes;
    }

    static long control(BIO* bio, int command, long, void*) {
        if (command == BIO_CTRL_FLUSH)
            return 1;
        if (command == BIO_CTRL_EOF)
            return wire_of(bio).ended ? 1 : 0;
        return 0;
    }

    static int create(BIO* bio) {
        openssl().BIO_set_init(bio, 1);
        return 1;
    }
};

/// What was held goes first. Returns what send(2) would for the record alone.
ssize_t TlsSession::Wire::send(std::string_view record) {
    iovec parts[] = {{held.data(), held.size()}, {const_cast<char*>(record.data()), record.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent <= 0 || held.empty())
        return sent;
    const std::size_t of_held = std::min(held.size(), static_cast<std::size_t>(sent));
    held.erase(0, of_held);
    if (static_cast<std::size_t>(sent) > of_held || record.empty())
        return sent - static_cast<ssize_t>(of_held);
    errno = EAGAIN;
    return -1;
}

void TlsContext::Deleter::operator()(ssl_ctx_st* context) const { openssl().SSL_CTX_free(context); }
void TlsContext::Deleter::operator()(bio_method_st* method) const {
    openssl().BIO_meth_free(method);
}
void TlsSession::Deleter::operator()(ssl_st* session) const { openssl().SSL_free(session); }

TlsContext::TlsContext(TlsEnd end, TlsKeyExchange exchange) : end_(end) {
    wire_method_.reset(openssl().BIO_meth_new(openssl().BIO_get_new_index() | BIO_TYPE_SOURCE_SINK,
                                              "autolaunch control connection"));
    context_.reset(openssl().SSL_CTX_new(end == TlsEnd::client ? openssl().TLS_client_method()
                                                               : openssl().TLS_server_method()));
    if (!wire_method_ || !context_)
        refuse_tls("make a TLS context");
    openssl().BIO_meth_set_create(wire_method_.get(), TlsCallbacks::create);
    openssl().BIO_meth_set_read(wire_method_.get(), TlsCallbacks::read);
    openssl().BIO_meth_set_write(wire_method_.get(), TlsCallbacks::write);
    openssl().BIO_meth_set_ctrl(wire_method_.get(), TlsCallbacks::control);

    SSL_CTX* context = context_.get();
    if (openssl().SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) !=
            1 ||
        openssl().SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, nullptr) !=
            1 ||
        openssl().SSL_CTX_set_ciphersuites(context, kCipherSuite) != 1)
        refuse_tls("use TLS 1.3 with AES-128-GCM");
    openssl().SSL_CTX_set_options(
        context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    openssl().SSL_CTX_set_num_tickets(context, 0);
    openssl().SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
    openssl().SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                           SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                               SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                           nullptr);
    // A flight has four records: one recv(2) for all, instead of two for each.
    openssl().SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, nullptr);
    set_key_exchange(context, end, exchange);
    if (end == TlsEnd::client) {
        openssl().SSL_CTX_set_psk_use_session_callback(context, TlsCallbacks::use);
    } else {
        openssl().SSL_CTX_set_psk_find_session_callback(context, TlsCallbacks::find);
    }
}

TlsSession::TlsSession(const TlsContext& context, int socket,
                       std::shared_ptr<const TlsSecret> secret)
    : secret_(std::move(secret)),
      wire_{socket, kHandshakeBytes},
      session_(openssl().SSL_new(context.context_.get())) {
    BIO* bio = openssl().BIO_new(context.wire_method_.get());
    if (!session_ || bio == nullptr) {
        openssl().BIO_free(bio);
        throw std::bad_alloc();
    }
    openssl().BIO_set_data(bio, &wire_);
    openssl().SSL_set_bio(session_.get(), bio, bio);
    openssl().SSL_set_ex_data(session_.get(), 0, this);
    if (context.end_ == TlsEnd::client) {
        openssl().SSL_set_connect_state(session_.get());
        wire_.holds = true;
    } else {
        openssl().SSL_set_accept_state(session_.get());
    }
}

TlsStep TlsSession::step_of(int result) {
    switch (openssl().SSL_get_error(session_.get(), result)) {
        case SSL_ERROR_NONE:
            return TlsStep::done;
        case SSL_ERROR_WANT_READ:
            return TlsStep::want_read;
        case SSL_ERROR_WANT_WRITE:
            return TlsStep::want_write;
        case SSL_ERROR_ZERO_RETURN:
            return TlsStep::closed;
        default:
            break;
    }
    keys_differ_ = says_that_keys_differ(openssl().ERR_peek_error());
    if (wire_.ended && !keys_differ_)
        return TlsStep::closed;
    failure_ =
        wire_.counts && wire_.handshake_bytes_left == 0 ? "too many bytes" : openssl_reason();
    return TlsStep::failed;
}

TlsStep TlsSession::handshake() {
    openssl().ERR_clear_error();
    const TlsStep step = step_of(openssl().SSL_do_handshake(session_.get()));
    if (step == TlsStep::done) {
        wire_.counts = wire_.holds = false;
        secret_.reset();
        return step;
    }
    const TlsStep sent = flush();  // an alert goes out, too
    return step == TlsStep::want_read ? (sent == TlsStep::done ? step : sent) : step;
}

TlsStep TlsSession::flush() {
    while (!wire_.held.empty() && !wire_.ended) {
        wire_.is_dry = true;
        if (wire_.send({}) >= 0 || errno == EINTR)
            continue;
        if (errno == EAGAIN)
            return TlsStep::want_write;
        wire_.ended = true;
    }
    return wire_.held.empty() ? TlsStep::done : TlsStep::closed;
}

TlsStep TlsSession::write(std::string_view bytes, std::size_t& written) {
    openssl().ERR_clear_error();
    written = 0;
    return step_of(openssl().SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &written));
}

TlsStep TlsSession::read(std::span<char> into, std::size_t& got) {
    openssl().ERR_clear_error();
    got = 0;
    return step_of(openssl().SSL_read_ex(session_.get(), into.data(), into.size(), &got));
}

void TlsSession::shut_down() {
    openssl().ERR_clear_error();
    if (openssl().SSL_is_init_finished(session_.get()) && !wire_.ended && failure_.empty())
        openssl().SSL_shutdown(session_.get());
}

}  // namespace autolaunch::launcher
