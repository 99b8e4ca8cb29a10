#pragma once
#include "exposition/metric.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// Answers GET /metrics, and nothing else: one request a connection, no name, no secret. What a
/// client may cost is bounded: so many connections at a time, so many bytes, so much time for all
/// of one.
///
/// Owner: the sampler. Threads: one, io's. Blocks: the constructor, for a bind.
class MetricsServer {
public:
    struct Limits {
        std::chrono::milliseconds request{5'000}, answer{10'000};
        std::size_t connections = 32;
    };
    using Text = std::function<std::string(MetricFormat)>;

    /// Throws Error with the remedy where address and port cannot be had.
    MetricsServer(asio::io_context& io, const std::string& address, int port, Text text,
                  Limits limits);
    MetricsServer(asio::io_context& io, const std::string& address, int port, Text text)
        : MetricsServer(io, address, port, std::move(text), Limits{}) {}

    int port() const;
    std::size_t connections() const { return *open_; }

private:
    struct Connection;
    void accept();

    asio::io_context& io_;
    asio::ip::tcp::acceptor acceptor_;
    Text text_;
    Limits limits_;
    std::shared_ptr<std::size_t> open_ = std::make_shared<std::size_t>(0);
};

}  // namespace autolaunch::launcher
