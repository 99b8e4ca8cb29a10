#include "rendezvous/head_listener.hpp"

#include "control/rendezvous_error.hpp"
#include "exit_codes/exit_codes.hpp"

#include <asio/error.hpp>
#include <asio/ip/v6_only.hpp>

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};
constexpr int kMostAtOnce = 1024;  // before other events get their turn

/// False when the port is taken or the family is not there.
bool listen_on(tcp::acceptor& acceptor, const tcp& family, std::uint16_t port,
               asio::error_code& error) {
    const int socket = ::socket(family.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) {
        error.assign(errno, asio::error::get_system_category());
        return false;
    }
    acceptor.assign(family, socket);
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && family == tcp::v6())
        acceptor.set_option(asio::ip::v6_only(false), error);
    if (!error)
        acceptor.bind(tcp::endpoint(family, port), error);
    if (!error)
        acceptor.listen(asio::socket_base::max_listen_connections, error);
    asio::error_code ignored;
    if (error)
        acceptor.close(ignored);
    return !error;
}

}  // namespace

class HeadListener::Impl : public std::enable_shared_from_this<HeadListener::Impl> {
public:
    Impl(asio::io_context& io, Handler on_accept)
        : acceptor_(io), timer_(io), on_accept_(std::move(on_accept)) {}

    void open(const std::vector<std::uint16_t>& ports) {
        asio::error_code error;
        for (const std::uint16_t port : ports) {
            for (const tcp& family : {tcp::v6(), tcp::v4()}) {
                if (!listen_on(acceptor_, family, port, error)) {
                    if (error == asio::error::address_in_use)
                        break;
                    continue;
                }
                port_ = port != 0 ? port : acceptor_.local_endpoint(error).port();
                ipv4_only_ = family == tcp::v4();
                acceptor_.native_non_blocking(true);
                return wait();
            }
        }
        std::string list;
        for (const std::uint16_t port : ports)
            list += " " + std::to_string(port);
        throw RendezvousError(
            exit_code::kUnavailable, "the head cannot listen on any of the job's ports:" + list,
            "the last answer: " + error.message() + "; `ss -ltnp` shows who has them");
    }
    void wait() {
        if (!acceptor_.is_open())
            return;
        acceptor_.async_wait(tcp::acceptor::wait_read,
                             [self = shared_from_this()](const asio::error_code& error) {
                                 if (!error)
                                     self->take_all();
                             });
    }
    void close() {
        asio::error_code ignored;
        acceptor_.close(ignored);
        timer_.cancel();
        on_accept_ = {};
    }

    std::uint16_t port_ = 0;
    bool ipv4_only_ = false;

private:
    void take_all() {
        for (int i = 0; i < kMostAtOnce && acceptor_.is_open(); ++i) {
            const int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr,
                                     SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
                continue;
            if (fd < 0 && errno == EAGAIN)
                break;
            if (fd < 0)
                return wait_for_descriptors();
            tcp::socket socket(acceptor_.get_executor());
            asio::error_code error;
            socket.assign(ipv4_only_ ? tcp::v4() : tcp::v6(), fd, error);
            if (!error)
                on_accept_(std::move(socket));
        }
        wait();
    }
    void wait_for_descriptors() {
        timer_.expires_after(kPauseWithoutDescriptors);
        timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
            if (!error)
                self->wait();
        });
    }

    tcp::acceptor acceptor_;
    asio::steady_timer timer_;
    Handler on_accept_;
};

HeadListener::HeadListener(asio::io_context& io, const std::vector<std::uint16_t>& ports,
                           Handler on_accept)
    : impl_(std::make_shared<Impl>(io, std::move(on_accept))) {
    impl_->open(ports);
}

HeadListener::~HeadListener() { impl_->close(); }
std::uint16_t HeadListener::port() const { return impl_->port_; }
bool HeadListener::ipv4_only() const { return impl_->ipv4_only_; }

}  // namespace autolaunch::launcher
