#include "control/control_connection.hpp"

#include "control/control_channel.hpp"

#include <asio/post.hpp>

#include <utility>

namespace autolaunch::launcher {

ControlConnection::ControlConnection(std::shared_ptr<Channel> channel)
    : channel_(std::move(channel)) {
    asio::post(channel_->executor(), [channel = channel_] { channel->start(); });
}

ControlConnection::~ControlConnection() { channel_->release(); }

std::shared_ptr<ControlConnection> ControlConnection::accept(
    asio::ip::tcp::socket socket, std::shared_ptr<ControlSecurity> security,
    const ControlConnectionOptions& options, Handlers handlers) {
    return std::shared_ptr<ControlConnection>(new ControlConnection(std::make_shared<Channel>(
        std::move(socket), std::move(security), options, std::move(handlers))));
}

std::shared_ptr<ControlConnection> ControlConnection::connect(
    asio::ip::tcp::socket socket, std::shared_ptr<ControlSecurity> security,
    const ControlConnectionOptions& options, Handlers handlers) {
    return accept(std::move(socket), std::move(security), options, std::move(handlers));
}

void ControlConnection::send(const control::Message& message) {
    channel_->send(std::make_shared<const std::string>(control::encode(message)));
}

void ControlConnection::send_encoded(std::shared_ptr<const std::string> frame) {
    channel_->send(std::move(frame));
}
void ControlConnection::set_frame_limit(std::size_t bytes) { channel_->set_frame_limit(bytes); }
void ControlConnection::set_handlers(Handlers handlers) {
    channel_->set_handlers(std::move(handlers));
}
void ControlConnection::close() { channel_->close(); }
std::chrono::milliseconds ControlConnection::silent_for() const { return channel_->silent_for(); }
asio::ip::tcp::endpoint ControlConnection::local_endpoint() const {
    return channel_->local_endpoint();
}
asio::ip::tcp::endpoint ControlConnection::remote_endpoint() const {
    return channel_->remote_endpoint();
}

}  // namespace autolaunch::launcher
