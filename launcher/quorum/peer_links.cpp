#include "quorum/peer_links.hpp"

#include "base/text.hpp"
#include "quorum/quorum_bytes.hpp"

#include <autolaunch/error.hpp>

#include <asio/error.hpp>
#include <asio/ip/address.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using asio::ip::tcp;

constexpr std::size_t kMostWaiting = 16;  // of one node; the oldest is of least use
constexpr std::size_t kMostHeard = 8192;

std::optional<tcp::endpoint> endpoint_of(const std::string& door) {
    const auto colon = door.rfind(':');
    long long port = 0;
    if (colon == std::string::npos || !parse_integer(door.substr(colon + 1), port) || port < 1 ||
        port > 65535)
        return std::nullopt;
    asio::error_code error;
    const auto address = asio::ip::make_address(door.substr(0, colon), error);
    if (error)
        return std::nullopt;
    return tcp::endpoint(address, static_cast<std::uint16_t>(port));
}

}  // namespace

PeerLinks::PeerLinks(asio::io_context& io, const Options& options, PeerDoor& door,
                     Handlers handlers)
    : io_(io),
      options_(options),
      security_(ControlSecurity::for_peers(options.identity, options.key, ControlRole::node)),
      handlers_(std::move(handlers)) {
    door.open(options.identity, options.key, options.connection,
              [this, alive = std::weak_ptr(alive_)](const PeerDoor::Visitor& visitor) {
                  if (!alive.expired())
                      on_visitor(visitor);
              });
}

PeerLinks::~PeerLinks() { stop(); }

void PeerLinks::stop() {
    stopped_ = true;
    for (const auto& connection : heard_) {
        connection->set_handlers({});
        connection->close();
    }
    heard_.clear();
    links_.clear();
}

void PeerLinks::know(int node, const std::string& door) {
    Link& link = links_[node];
    if (std::exchange(link.door, door) != door)
        link.connection.reset();
}

void PeerLinks::say(const succession::Message& word) {
    if (stopped_)
        return;
    const int node = word.to.node;
    Link& link = links_[node];
    std::string bytes = encode_succession(word);
    if (link.connection)
        return link.connection->send(control::Succession{std::move(bytes)});
    if (link.waiting.size() == kMostWaiting)
        link.waiting.pop_front();
    link.waiting.push_back(std::move(bytes));
    if (std::exchange(link.is_dialled, true))
        return;
    connect(node, [this, node](std::shared_ptr<ControlConnection> connection) {
        Link& reached = links_[node];
        reached.is_dialled = false;
        const auto waiting = std::exchange(reached.waiting, {});
        if (!connection)
            return;
        hear(connection);
        reached.connection = connection;
        for (const std::string& one : waiting)
            connection->send(control::Succession{one});
    });
}

void PeerLinks::connect(int node, Connected connected) {
    dial(node, [this, connected = std::move(connected)](const std::shared_ptr<tcp::socket>& socket,
                                                        bool) {
        connected(socket ? open(socket) : nullptr);
    });
}

void PeerLinks::ask_if_gone(int node, std::function<void(bool gone)> answered) {
    dial(node, [answered = std::move(answered)](const std::shared_ptr<tcp::socket>&, bool refused) {
        answered(refused);
    });
}

// Calls back from the event loop, once, within half the silence limit.
void PeerLinks::dial(int node, Dialled dialled) {
    const auto endpoint = endpoint_of(links_[node].door);
    const int fd = endpoint ? ::socket(endpoint->protocol().family(),
                                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
                            : -1;
    const auto tell = [this, alive = std::weak_ptr(alive_), dialled = std::move(dialled)](
                          std::shared_ptr<tcp::socket> socket, bool refused) {
        if (!alive.expired() && !stopped_)
            dialled(std::move(socket), refused);
    };
    if (fd < 0)
        return asio::post(io_, [tell] { tell(nullptr, false); });
    const auto socket = std::make_shared<tcp::socket>(io_, endpoint->protocol(), fd);
    const auto timer =
        std::make_shared<asio::steady_timer>(io_, options_.connection.silence_limit / 2);
    timer->async_wait([socket](const std::error_code& canceled) {
        asio::error_code ignored;
        if (!canceled)
            socket->close(ignored);
    });
    socket->async_connect(*endpoint, [socket, timer, tell](const asio::error_code& error) {
        timer->cancel();
        tell(error ? nullptr : socket, error == asio::error::connection_refused);
    });
}

std::shared_ptr<ControlConnection> PeerLinks::open(const std::shared_ptr<tcp::socket>& socket) {
    auto connection =
        ControlConnection::connect(std::move(*socket), security_, options_.connection, {});
    connection->set_frame_limit(control::kFrameLimit);
    return connection;
}

void PeerLinks::on_visitor(const PeerDoor::Visitor& visitor) {
    if (stopped_ || heard_.size() >= kMostHeard)
        return;  // which closes it
    visitor->set_frame_limit(control::kFrameLimit);
    hear(visitor);
}

void PeerLinks::hear(const std::shared_ptr<ControlConnection>& connection) {
    heard_.push_back(connection);
    const std::weak_ptr<ControlConnection> weak = connection;
    const std::weak_ptr<const bool> alive = alive_;
    connection->set_handlers({.on_ready = {},
                              .on_message =
                                  [this, alive, weak](control::Message&& message) {
                                      if (!alive.expired())
                                          on_message(weak, std::move(message));
                                  },
                              .on_end =
                                  [this, alive, weak](const ConnectionEnd&) {
                                      if (!alive.expired())
                                          on_end(weak);
                                  }});
}

// What proves the key and then talks nonsense is of no use: its connection goes.
void PeerLinks::on_message(const std::weak_ptr<ControlConnection>& from,
                           control::Message&& message) {
    const auto connection = from.lock();
    if (!connection || stopped_)
        return;
    if (const auto* follow = std::get_if<control::Follow>(&message)) {
        connection->set_handlers({});
        std::erase(heard_, connection);
        return handlers_.on_follower(*follow, connection);
    }
    try {
        const auto* said = std::get_if<control::Succession>(&message);
        if (said == nullptr)
            throw Error(ErrorCode::mismatch, "it says what is not for us");
        const succession::Message word = decode_succession(said->bytes);
        Link& link = links_[word.from.node];
        if (!link.connection)
            link.connection = connection;
        handlers_.on_word(word);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::mismatch)
            throw;
        on_end(from);
        connection->set_handlers({});
        connection->close();
    }
}

void PeerLinks::on_end(const std::weak_ptr<ControlConnection>& whose) {
    const auto connection = whose.lock();
    std::erase(heard_, connection);
    for (auto& [node, link] : links_)
        if (link.connection == connection)
            link.connection.reset();
}

}  // namespace autolaunch::launcher
