#include "control/control_channel.hpp"

#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace autolaunch::launcher {
namespace {

using Kind = ConnectionEnd::Kind;
constexpr std::chrono::seconds kCloseTime{1};
constexpr std::size_t kReadAtOnce = std::size_t{256}
                                    << 10;  // then other connections have their turn
constexpr std::size_t kForgetFrames =
    256;  // frames that were sent, before their places are given back

double seconds(std::chrono::milliseconds duration) {
    return std::chrono::duration<double>(duration).count();
}

void set_option(int socket, int level, int option, int value) {
    ::setsockopt(socket, level, option, &value,
                 sizeof value);  // what a system lacks is no reason to fail
}

/// The kernel notices a peer that is gone, too: a heartbeat is on its way before the limit, and
/// nobody acknowledges it. Acknowledgements of what came wait for the answer, which there nearly
/// always is: a third fewer packets in a join.
void prepare(int socket, std::chrono::milliseconds silence_limit) {
    const auto limit_ms =
        static_cast<int>(std::clamp<long long>(silence_limit.count(), 1, 1 << 30));
    close_on_exec(socket);
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, IPPROTO_TCP, TCP_QUICKACK, 0);
    set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, limit_ms);
}

const std::shared_ptr<const std::string>& heartbeat_frame() {
    static const auto frame =
        std::make_shared<const std::string>(control::encode(control::Heartbeat{}));
    return frame;
}

}  // namespace

ControlConnection::Channel::Channel(asio::ip::tcp::socket socket,
                                    std::shared_ptr<ControlSecurity> security,
                                    const ControlConnectionOptions& options, Handlers handlers)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      security_(std::move(security)),
      options_(options),
      handlers_(std::make_shared<const Handlers>(std::move(handlers))),
      reader_(control::kJoinLimit) {
    asio::error_code gone;  // an unconnected socket ends at its first read
    local_ = socket_.local_endpoint(gone);
    remote_ = socket_.remote_endpoint(gone);
}

void ControlConnection::Channel::start() {
    if (phase_ == Phase::ended)
        return;
    asio::error_code error;
    socket_.native_non_blocking(true, error);
    if (error)
        return end(Kind::closed, error.message());
    prepare(socket_.native_handle(), options_.silence_limit);
    set_timer(Clock::now() + options_.handshake_timeout);
    // The node speaks first: a scanner of ports learns nothing.
    if (security_->preamble().role == ControlRole::node)
        plain_out_ = encode_preamble(security_->preamble());
    advance();
}

void ControlConnection::Channel::advance() {
    while (phase_ == Phase::preamble && exchange_preambles()) {
    }
    while (phase_ == Phase::handshake && shake_hands()) {
    }
    if (phase_ == Phase::open || phase_ == Phase::closing)
        flush();
    if (phase_ == Phase::open || phase_ == Phase::closing)
        receive();
    if (phase_ == Phase::draining)
        drain();
}

// ---- before the peer is known

/// True once all of it is out.
bool ControlConnection::Channel::write_plain() {
    while (!plain_out_.empty()) {
        const ssize_t sent =
            ::send(socket_.native_handle(), plain_out_.data(), plain_out_.size(), MSG_NOSIGNAL);
        if (sent >= 0) {
            plain_out_.erase(0, static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN) {
            wait_writable();
            return false;
        } else if (errno != EINTR) {
            end(Kind::closed, std::strerror(errno));
            return false;
        }
    }
    return true;
}

/// Reads no byte more than the preamble has: what follows is TLS.
bool ControlConnection::Channel::exchange_preambles() {
    if (!write_plain())
        return false;
    const PreambleVerdict verdict = judge_preamble(plain_in_, security_->preamble());
    if (verdict.kind != PreambleVerdict::Kind::incomplete)
        return act_on(verdict);
    const std::span<char> scratch = security_->scratch();
    const std::size_t missing = std::min(verdict.wanted - plain_in_.size(), scratch.size());
    const ssize_t got = ::recv(socket_.native_handle(), scratch.data(), missing, 0);
    if (got > 0) {
        plain_in_.append(scratch.data(), static_cast<std::size_t>(got));
        return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        wait_readable();
    } else if (got < 0 && errno != ECONNRESET) {
        end(Kind::closed, std::strerror(errno));
    } else {
        end(Kind::closed, plain_in_.empty()
                              ? "it closed the connection without a word"
                              : "it closed the connection in the middle of its preamble");
    }
    return false;
}

bool ControlConnection::Channel::act_on(const PreambleVerdict& verdict) {
    plain_in_ = {};
    const bool is_head = security_->preamble().role == ControlRole::head;
    if (verdict.kind == PreambleVerdict::Kind::refused) {
        if (!verdict.is_autolaunch || !is_head) {
            end(Kind::not_ours, verdict.reason);
            return false;
        }
        Preamble answer = security_->preamble();  // so that the other end can say why, too
        answer.credential.clear();
        plain_out_ = encode_preamble(answer);
        if (write_plain())
            begin_draining({Kind::not_ours, verdict.reason});
        return false;
    }
    if (is_head)
        plain_out_ = encode_preamble(security_->preamble());
    if (!write_plain() && phase_ == Phase::ended)
        return false;
    phase_ = Phase::secret;
    find_secret(verdict.theirs);
    return false;
}

void ControlConnection::Channel::find_secret(const Preamble& theirs) {
    const std::weak_ptr<Channel> weak = weak_from_this();
    const JobKey::Source source = security_->key_source(theirs);
    security_->find_secret(
        theirs, [weak, source](std::shared_ptr<const TlsSecret> secret, const std::string& reason) {
            const auto self = weak.lock();
            if (!self || self->phase_ != Phase::secret)
                return;
            if (!secret)
                return self->end(Kind::key_refused, reason);
            self->tls_.emplace(self->security_->context(source), self->socket_.native_handle(),
                               std::move(secret));
            self->phase_ = Phase::handshake;
            self->advance();
        });
}

bool ControlConnection::Channel::shake_hands() {
    if (!write_plain())
        return false;
    switch (tls_->handshake()) {
        case TlsStep::done:
            open();
            return true;
        case TlsStep::want_read:
            wait_readable();
            return false;
        case TlsStep::want_write:
            wait_writable();
            return false;
        case TlsStep::closed:
            end(Kind::closed, "it closed the connection during the TLS handshake");
            return false;
        case TlsStep::failed:
            break;
    }
    if (tls_->keys_differ())
        return end(Kind::key_refused, "it is of a job of this name, but has another key"), false;
    end(Kind::not_ours, "its TLS handshake failed: " + tls_->failure());
    return false;
}

// ---- messages

void ControlConnection::Channel::open() {
    phase_ = Phase::open;
    last_sent_ = last_received_ = Clock::now();
    set_timer(next_beat());
    const auto handlers = handlers_;
    if (handlers && handlers->on_ready)
        handlers->on_ready();
}

void ControlConnection::Channel::receive() {
    std::size_t read_bytes = 0;
    while (phase_ == Phase::open || phase_ == Phase::closing) {
        std::size_t got = 0;
        const std::span<char> scratch = security_->scratch();
        switch (tls_->read(scratch, got)) {
            case TlsStep::done:
                break;
            case TlsStep::want_read:
                return wait_readable();
            case TlsStep::want_write:
                return wait_writable();
            case TlsStep::closed:
                return end(Kind::closed, "it closed the connection");
            case TlsStep::failed:
                return end(Kind::corrupt, "TLS: " + tls_->failure());
        }
        last_received_ = Clock::now();
        if (phase_ == Phase::open) {
            reader_.feed({scratch.data(), got});
            deliver();
        }
        read_bytes += got;
        if (read_bytes >= kReadAtOnce) {
            asio::post(socket_.get_executor(), [self = shared_from_this()] { self->advance(); });
            return;
        }
    }
}

void ControlConnection::Channel::deliver() {
    while (phase_ == Phase::open) {
        std::optional<control::Message> message;
        try {
            message = reader_.next();
        } catch (const Error& error) {
            return end(Kind::corrupt, error.what());
        }
        if (!message)
            return;
        if (std::holds_alternative<control::Heartbeat>(*message))
            continue;
        const auto handlers = handlers_;
        if (handlers && handlers->on_message)
            handlers->on_message(std::move(*message));
    }
}

void ControlConnection::Channel::send(std::shared_ptr<const std::string> frame) {
    if (phase_ >= Phase::closing)
        return;
    queued_bytes_ += frame->size();
    if (queued_bytes_ > options_.send_limit_bytes)
        return end(Kind::too_slow,
                   fmt::format("it does not read: {} MiB wait to be sent", queued_bytes_ >> 20));
    queue_.push_back(std::move(frame));
    // Soon, not now: messages of one moment share a record and a system call.
    if (phase_ != Phase::open || flush_posted_)
        return;
    flush_posted_ = true;
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        self->flush_posted_ = false;
        if (self->phase_ == Phase::open || self->phase_ == Phase::closing)
            self->flush();
    });
}

/// The first bytes that wait, at most a record of them. What TLS did not take is gathered again,
/// with more behind it.
std::string_view ControlConnection::Channel::gather() {
    const std::span<char> scratch = security_->scratch();
    std::size_t filled = 0;
    std::size_t skip = first_sent_;
    for (std::size_t i = first_; i < queue_.size() && filled < scratch.size(); ++i) {
        const std::string_view left = std::string_view(*queue_[i]).substr(skip);
        filled += left.copy(scratch.data() + filled, scratch.size() - filled);
        skip = 0;
    }
    return {scratch.data(), filled};
}

void ControlConnection::Channel::consume(std::size_t bytes) {
    queued_bytes_ -= bytes;
    while (bytes > 0) {
        const std::size_t left = queue_[first_]->size() - first_sent_;
        if (bytes < left) {
            first_sent_ += bytes;
            break;
        }
        bytes -= left;
        first_sent_ = 0;
        queue_[first_++].reset();
    }
    if (first_ < queue_.size() && first_ < kForgetFrames)
        return;
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
}

void ControlConnection::Channel::flush() {
    while (!queue_.empty()) {
        std::size_t written = 0;
        const TlsStep step = tls_->write(gather(), written);
        if (step == TlsStep::want_write)
            return wait_writable();
        if (step == TlsStep::want_read)
            return wait_readable();
        if (step == TlsStep::closed)
            return end(Kind::closed, "it closed the connection");
        if (step == TlsStep::failed)
            return end(Kind::corrupt, "TLS: " + tls_->failure());
        consume(written);
        last_sent_ = Clock::now();
    }
    if (tls_->flush() == TlsStep::want_write)
        return wait_writable();
    if (phase_ != Phase::closing)
        return;
    tls_->shut_down();
    begin_draining({Kind::by_us, {}});
}

// ---- time

ControlConnection::Channel::Clock::time_point ControlConnection::Channel::next_beat() const {
    return std::min(last_sent_ + options_.silence_limit / 3,
                    last_received_ + options_.silence_limit);
}

void ControlConnection::Channel::set_timer(Clock::time_point at) {
    timer_at_ = at;
    timer_.expires_at(at);
    timer_.async_wait([self = shared_from_this()](const asio::error_code& canceled) {
        if (!canceled)
            self->on_timer();
    });
}

void ControlConnection::Channel::on_timer() {
    switch (phase_) {
        case Phase::preamble:
        case Phase::secret:
        case Phase::handshake:
            return end(Kind::too_slow, fmt::format("it {} in {:g} s",
                                                   plain_in_.empty() && phase_ == Phase::preamble
                                                       ? "said nothing"
                                                       : "did not prove its key",
                                                   seconds(options_.handshake_timeout)));
        case Phase::open:
            return beat();
        case Phase::closing:
            return end(Kind::by_us, "it did not read what was sent last");
        case Phase::draining:
            return end(end_.kind, end_.reason);
        case Phase::ended:
            return;
    }
}

void ControlConnection::Channel::beat() {
    // Time in which we did not run (a suspended job, a machine that slept) is no silence of the
    // peer, which may have slept as well.
    const auto late = Clock::now() - timer_at_;
    if (late >= options_.silence_limit / 3)
        last_received_ = std::min(last_received_ + late, Clock::now());
    // Who was stopped for a while finds what arrived meanwhile in the socket, and must not blame
    // the peer.
    if (Clock::now() >= last_received_ + options_.silence_limit)
        receive();
    if (phase_ != Phase::open)
        return;
    const Clock::time_point now = Clock::now();
    if (now >= last_received_ + options_.silence_limit)
        return end(Kind::silent,
                   fmt::format("it has said nothing for {:g} s", seconds(options_.silence_limit)));
    if (now >= last_sent_ + options_.silence_limit / 3) {
        if (queue_.empty())
            send(heartbeat_frame());
        last_sent_ = now;
    }
    set_timer(next_beat());
}

void ControlConnection::Channel::wait_readable() {
    if (std::exchange(reading_, true))
        return;
    socket_.async_wait(asio::ip::tcp::socket::wait_read,
                       [self = shared_from_this()](const asio::error_code& canceled) {
                           self->reading_ = false;
                           if (!canceled)
                               self->advance();
                       });
}

void ControlConnection::Channel::wait_writable() {
    if (std::exchange(writing_, true))
        return;
    socket_.async_wait(asio::ip::tcp::socket::wait_write,
                       [self = shared_from_this()](const asio::error_code& canceled) {
                           self->writing_ = false;
                           if (!canceled)
                               self->advance();
                       });
}

// ---- the end

void ControlConnection::Channel::set_handlers(Handlers handlers) {
    if (handlers_)
        handlers_ = std::make_shared<const Handlers>(std::move(handlers));
}

void ControlConnection::Channel::release() {
    handlers_.reset();
    close();
}

void ControlConnection::Channel::close() {
    if (phase_ >= Phase::closing)
        return;
    if (phase_ != Phase::open)
        return end(Kind::by_us, {});
    phase_ = Phase::closing;
    set_timer(Clock::now() + kCloseTime);
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->advance(); });
}

/// Closing a socket with unread bytes resets the connection, and what was sent last may be lost
/// with it: so it is read empty until the peer closes, for at most a second.
void ControlConnection::Channel::begin_draining(ConnectionEnd then) {
    end_ = std::move(then);
    ::shutdown(socket_.native_handle(), SHUT_WR);
    if (phase_ != Phase::closing)
        set_timer(Clock::now() + kCloseTime);
    phase_ = Phase::draining;
    drain();
}

void ControlConnection::Channel::drain() {
    const std::span<char> scratch = security_->scratch();
    for (std::size_t bytes = 0; bytes < kReadAtOnce;) {
        const ssize_t got = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return wait_readable();
        if (got <= 0 || !tls_)
            return end(end_.kind, end_.reason);  // a stranger has said enough
        bytes += static_cast<std::size_t>(got);
    }
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->advance(); });
}

void ControlConnection::Channel::end(Kind kind, std::string reason) {
    if (phase_ == Phase::ended)
        return;
    phase_ = Phase::ended;
    timer_.cancel();
    asio::error_code gone;
    socket_.close(gone);
    queue_ = {};
    asio::post(socket_.get_executor(),
               [self = shared_from_this(), how = ConnectionEnd{kind, std::move(reason)}] {
                   self->tls_.reset();
                   const auto handlers = std::exchange(self->handlers_, nullptr);
                   if (handlers && handlers->on_end)
                       handlers->on_end(how);
               });
}

}  // namespace autolaunch::launcher
