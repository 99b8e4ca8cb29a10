#pragma once
#include "control/control_connection.hpp"
#include "control/control_security.hpp"

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A ControlConnection's inside: what its pending operations keep alive. One socket, one timer, one
/// phase; whatever happens ends in advance(), which goes on from the phase as far as the socket
/// lets it.
class ControlConnection::Channel : public std::enable_shared_from_this<Channel> {
public:
    Channel(asio::ip::tcp::socket socket, std::shared_ptr<ControlSecurity> security,
            const ControlConnectionOptions& options, Handlers handlers);

    void start();
    void send(std::shared_ptr<const std::string> frame);
    void set_frame_limit(std::size_t bytes) { reader_.set_frame_limit(bytes); }
    void set_handlers(Handlers handlers);
    void close();
    void release();
    asio::any_io_executor executor() { return socket_.get_executor(); }
    std::chrono::milliseconds silent_for() const {
        return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_received_);
    }
    const asio::ip::tcp::endpoint& local_endpoint() const { return local_; }
    const asio::ip::tcp::endpoint& remote_endpoint() const { return remote_; }

private:
    using Clock = std::chrono::steady_clock;
    enum class Phase {
        preamble,   // who is it?
        secret,     // a node gets the key
        handshake,  // it proves the key
        open,
        closing,   // what was sent goes out
        draining,  // nothing more is sent; the peer may read it all before the socket goes
        ended,
    };

    // Each goes on as far as it can; true: the phase changed.
    bool exchange_preambles();
    bool shake_hands();
    void advance();
    bool write_plain();
    bool act_on(const PreambleVerdict& verdict);
    void find_secret(const Preamble& theirs);
    void open();

    void receive();
    void deliver();
    void flush();
    std::string_view gather();
    void consume(std::size_t bytes);
    void drain();
    void begin_draining(ConnectionEnd then);

    void wait_readable();
    void wait_writable();
    void set_timer(Clock::time_point at);
    void on_timer();
    void beat();
    Clock::time_point next_beat() const;
    void end(ConnectionEnd::Kind kind, std::string reason);

    asio::ip::tcp::socket socket_;
    asio::ip::tcp::endpoint local_, remote_;
    asio::steady_timer timer_;
    Clock::time_point timer_at_{};
    const std::shared_ptr<ControlSecurity> security_;
    const ControlConnectionOptions options_;
    std::shared_ptr<const Handlers> handlers_;  // shared: a handler may replace them while it runs

    Phase phase_ = Phase::preamble;
    bool reading_ = false, writing_ = false, flush_posted_ = false;
    std::string plain_out_, plain_in_;
    std::optional<TlsSession> tls_;
    control::MessageReader reader_;
    std::vector<std::shared_ptr<const std::string>> queue_;  // from first_ on
    std::size_t first_ = 0, first_sent_ = 0, queued_bytes_ = 0;
    Clock::time_point last_sent_, last_received_;
    ConnectionEnd end_;  // while draining: what then comes
};

}  // namespace autolaunch::launcher
