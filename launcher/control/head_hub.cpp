#include "control/head_hub.hpp"

#include "control/peer_text.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <algorithm>
#include <exception>

namespace autolaunch::launcher {

namespace {

// A completed fence with more blobs goes out in parts of about this size.
constexpr std::size_t kFencePartBytes = std::size_t{8} << 20;

}  // namespace

HeadHub::HeadHub(asio::io_context& io, const Roster& roster, Connections connections)
    : io_(io),
      self_(roster.self),
      peers_(roster.nodes.size()),
      fences_(static_cast<int>(roster.nodes.size())) {
    for (std::size_t at = 0; at < peers_.size(); ++at) {
        const int node = static_cast<int>(at);
        peers_[at].name = roster.nodes[at].name;
        if (node != self_ && connections.at(at) != nullptr)
            adopt(node, connections.at(at));
        else if (node != self_)
            ++left_;
    }
}

HeadHub::~HeadHub() {
    alive_.reset();
    for (auto& peer : peers_) {
        if (peer.connection == nullptr)
            continue;
        peer.connection->set_handlers({});
        peer.connection->close();
    }
}

int HeadHub::take_in(const std::string& name,
                     const std::shared_ptr<ControlConnection>& connection) {
    const auto node = static_cast<int>(peers_.size());
    peers_.emplace_back().name = name;
    fences_.grow(node + 1);
    adopt(node, connection);
    return node;
}

std::vector<std::string> HeadHub::addresses() const {
    std::vector<std::string> addresses;
    for (const Peer& peer : peers_)
        addresses.push_back(peer.connection ? numeric_address(peer.connection->remote_endpoint())
                                            : "");
    return addresses;
}

void HeadHub::adopt(int node, const std::shared_ptr<ControlConnection>& connection) {
    peers_[static_cast<std::size_t>(node)].connection = connection;
    connection->set_frame_limit(control::kFrameLimit);
    connection->set_handlers(
        {.on_ready = {},
         .on_message = [this,
                        node](control::Message&& message) { receive(node, std::move(message)); },
         .on_end = [this, node](const ConnectionEnd& end) { on_end(node, end); }});
}

bool HeadHub::take_back(int node, const std::shared_ptr<ControlConnection>& connection) {
    if (node == self_ || node < 0 || static_cast<std::size_t>(node) >= peers_.size() ||
        is_there(node))
        return false;
    --left_;
    peers_[static_cast<std::size_t>(node)].fell_silent = false;
    adopt(node, connection);
    return true;
}

bool HeadHub::is_there(int node) const {
    return node == self_ || peers_[static_cast<std::size_t>(node)].connection != nullptr;
}

NodeMember::Link HeadHub::link_of_own_member() {
    const std::weak_ptr<const bool> alive = alive_;
    return {.send =
                [this, alive](control::Message&& message) {
                    asio::post(io_, [this, alive, message = std::move(message)]() mutable {
                        if (!alive.expired())
                            receive(self_, std::move(message));
                    });
                },
            .close =
                [this, alive] {
                    if (!alive.expired())
                        own_member_ = nullptr;
                }};
}

std::unique_ptr<NodeMember> HeadHub::make_own_member() {
    auto member = std::make_unique<NodeMember>(io_, self_, static_cast<int>(peers_.size()));
    own_member_ = member.get();
    member->set_link(link_of_own_member());
    return member;
}

void HeadHub::take_own_member(NodeMember& member) {
    own_member_ = &member;
    member.follow(self_, link_of_own_member());
}

void HeadHub::post_to_own_member(control::Message message) {
    asio::post(io_, [this, alive = std::weak_ptr(alive_), message = std::move(message)]() mutable {
        if (!alive.expired() && own_member_ != nullptr)
            own_member_->deliver(std::move(message));
    });
}

void HeadHub::set_handlers(Handlers handlers) {
    handlers_ = std::move(handlers);
    if (kept_.empty())
        return;
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
        if (!alive.expired())
            hand_over_kept();
    });
}

void HeadHub::tell_owner(Kept&& news) {
    kept_.push_back(std::move(news));
    if (handlers_.on_report && handlers_.on_node_lost)
        hand_over_kept();
}

// The owner may destroy this hub within.
void HeadHub::hand_over_kept() {
    const std::weak_ptr<const bool> alive = alive_;
    const auto handlers = handlers_;
    for (auto& [node, news] : std::exchange(kept_, {})) {
        if (auto* report = std::get_if<control::Report>(&news)) {
            if (handlers.on_report)
                handlers.on_report(node, std::move(*report));
        } else if (handlers.on_node_lost) {
            handlers.on_node_lost(node, std::get<std::string>(news));
        }
        if (alive.expired())
            return;
    }
}

void HeadHub::command(const control::Command& command) {
    if (const auto* start = std::get_if<control::StartGeneration>(&command))
        fences_.begin_generation(start->generation, start->ranks_per_node);
    if (std::holds_alternative<control::Finish>(command))
        finishing_ = true;
    if (peers_.size() > 1) {
        const auto frame = std::make_shared<const std::string>(control::encode(command));
        for (const Peer& peer : peers_)
            if (peer.connection != nullptr)
                peer.connection->send_encoded(frame);
    }
    post_to_own_member(command);
}

void HeadHub::send(int node, control::Message&& message) {
    if (node == self_)
        return post_to_own_member(std::move(message));
    const Peer& peer = peers_[static_cast<std::size_t>(node)];
    if (peer.connection != nullptr)
        peer.connection->send(message);
}

// A node that sends nonsense is of no use to the job: it counts as lost, and says why.
void HeadHub::receive(int node, control::Message&& message) {
    try {
        receive_checked(node, std::move(message));
    } catch (const Error& error) {
        if (node == self_)
            throw;  // our own bug
        const auto connection = peers_[static_cast<std::size_t>(node)].connection;
        on_end(node, {ConnectionEnd::Kind::corrupt, error.what()});
        if (connection != nullptr)
            connection->close();
    }
}

void HeadHub::receive_checked(int node, control::Message&& message) {
    if (auto* report = std::get_if<control::Report>(&message)) {
        tell_owner({node, std::move(*report)});
    } else if (auto* fence = std::get_if<control::Fence>(&message)) {
        const int generation = fence->generation;
        if (auto done = fences_.contribute(node, std::move(*fence)))
            complete(generation, std::move(*done));
    } else if (auto* relay = std::get_if<control::Relay>(&message)) {
        if (relay->destination < 0 || static_cast<std::size_t>(relay->destination) >= peers_.size())
            throw Error(ErrorCode::mismatch,
                        "it relays to node " + std::to_string(relay->destination));
        relay->source = node;  // nobody speaks for another
        const int destination = relay->destination;
        send(destination, std::move(*relay));
    } else {
        throw Error(ErrorCode::mismatch, "it sent what only the head may send");
    }
}

void HeadHub::complete(int generation, FenceTable::Completed&& fence) {
    control::FenceDone part;
    part.generation = generation;
    part.name = fence.name;
    std::size_t bytes = 0;
    for (auto& [node, blob] : fence.blobs) {
        if (!part.blobs.empty() && bytes + blob.size() > kFencePartBytes) {
            part.more = true;
            send_part(fence.nodes, part);
            part.blobs.clear();
            bytes = 0;
        }
        bytes += blob.size();
        part.blobs.emplace_back(node, std::move(blob));
    }
    part.more = false;
    send_part(fence.nodes, part);
}

void HeadHub::send_part(const std::vector<int>& nodes, const control::FenceDone& part) {
    const auto frame = std::make_shared<const std::string>(control::encode(part));
    const auto send_to = [&](std::size_t node) {
        if (node == static_cast<std::size_t>(self_))
            return post_to_own_member(part);
        if (peers_[node].connection != nullptr)
            peers_[node].connection->send_encoded(frame);
    };
    for (const int node : nodes)
        send_to(static_cast<std::size_t>(node));
    if (!nodes.empty())
        return;
    for (std::size_t node = 0; node < peers_.size(); ++node)
        send_to(node);
}

void HeadHub::on_end(int node, const ConnectionEnd& end) {
    Peer& peer = peers_[static_cast<std::size_t>(node)];
    if (peer.connection == nullptr)
        return;
    const std::string address = numeric_address(peer.connection->remote_endpoint());
    const std::string why = describe_end(peer.name + " (" + address + ")", end);
    peer.connection->set_handlers({});
    peer.connection.reset();
    peer.fell_silent = end.kind == ConnectionEnd::Kind::silent;
    ++left_;
    if (!finishing_)
        tell_owner({node, why});
}

}  // namespace autolaunch::launcher
