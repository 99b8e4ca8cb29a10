#include "exposition/metrics_server.hpp"

#include "exposition/http_request.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/ip/address.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kPlain = "text/plain; charset=utf-8";

std::string answer_to(const HttpRequest& request, const MetricsServer::Text& text) {
    if (request.method.empty())
        return http_answer(400, kPlain, "this is no HTTP request\n", true);
    const bool is_head = request.method == "HEAD";
    if (!is_head && request.method != "GET")
        return http_answer(405, kPlain, "GET /metrics\n", true);
    if (request.path != "/metrics")
        return http_answer(404, kPlain, "autolaunch has /metrics alone\n", !is_head);
    const MetricFormat format = format_wanted(request.accept);
    return http_answer(200, content_type(format), text(format), !is_head);
}

}  // namespace

struct MetricsServer::Connection : std::enable_shared_from_this<Connection> {
    Connection(asio::ip::tcp::socket accepted, Text get, Limits limit,
               std::shared_ptr<std::size_t> count)
        : socket(std::move(accepted)),
          timer(socket.get_executor()),
          text(std::move(get)),
          limits(limit),
          open(std::move(count)) {
        ++*open;
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { --*open; }

    void close_in(std::chrono::milliseconds time) {
        timer.expires_after(time);
        timer.async_wait([self = shared_from_this()](const std::error_code& error) {
            std::error_code ignored;
            if (!error)
                self->socket.close(ignored);
        });
    }

    void read() {
        socket.async_read_some(
            asio::buffer(bytes),
            [self = shared_from_this()](const std::error_code& error, std::size_t count) {
                if (error)
                    return self->end();
                self->heard.append(self->bytes.data(), count);
                const auto request = parse_http_request(self->heard);
                request ? self->write(answer_to(*request, self->text)) : self->read();
            });
    }

    void write(std::string answer) {
        said = std::move(answer);
        close_in(limits.answer);
        asio::async_write(socket, asio::buffer(said),
                          [self = shared_from_this()](const std::error_code& error, std::size_t) {
                              std::error_code ignored;
                              if (error)
                                  return self->end();
                              self->socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
                              self->drain();
                          });
    }

    // Closed with bytes unread, the kernel would take back what it has not sent yet.
    void drain() {
        socket.async_read_some(asio::buffer(bytes), [self = shared_from_this()](
                                                        const std::error_code& error, std::size_t) {
            error ? self->end() : self->drain();
        });
    }

    void end() {
        std::error_code ignored;
        timer.cancel();
        socket.close(ignored);
    }

    asio::ip::tcp::socket socket;
    asio::steady_timer timer;
    Text text;
    Limits limits;
    std::shared_ptr<std::size_t> open;
    std::array<char, 2048> bytes;
    std::string heard, said;
};

MetricsServer::MetricsServer(asio::io_context& io, const std::string& address, int port, Text text,
                             Limits limits)
    : io_(io), acceptor_(io), text_(std::move(text)), limits_(limits) {
    using asio::ip::tcp;
    std::error_code error;
    const auto place = asio::ip::make_address(address, error);
    if (error)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("monitoring.metrics_listen: {} is no address", address),
                    "127.0.0.1, control, or an address of this node");
    const tcp::endpoint endpoint(place, static_cast<std::uint16_t>(port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error)
        acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error)
        acceptor_.bind(endpoint, error);
    if (!error)
        acceptor_.listen(static_cast<int>(limits_.connections), error);
    if (error)
        throw Error(ErrorCode::system,
                    fmt::format("nobody can be served /metrics at {}:{}: {}", address, port,
                                error.message()),
                    error == asio::error::address_in_use
                        ? "another job of this node has the port: monitoring.metrics_port: 0 takes "
                          "one that is free, monitoring.metrics_targets_directory tells Prometheus"
                        : "monitoring.metrics_listen: 127.0.0.1 is always there");
    accept();
}

int MetricsServer::port() const {
    std::error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
}

void MetricsServer::accept() {
    acceptor_.async_accept([this](const std::error_code& error, asio::ip::tcp::socket socket) {
        if (error == asio::error::operation_aborted)
            return;
        if (error) {  // no descriptor is left: in a moment there may be one
            auto pause = std::make_shared<asio::steady_timer>(io_, limits_.request);
            return pause->async_wait([this, pause](const std::error_code& ended) {
                if (!ended)
                    accept();
            });
        }
        if (*open_ < limits_.connections) {
            const auto connection =
                std::make_shared<Connection>(std::move(socket), text_, limits_, open_);
            connection->close_in(limits_.request);
            connection->read();
        }  // else it is closed at once
        accept();
    });
}

}  // namespace autolaunch::launcher
