#include "control/node_member.hpp"

#include "control/peer_text.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

// Leaves room in a frame for the names around it.
constexpr std::size_t kBlobLimit = control::kFrameLimit - (std::size_t{1} << 20);

void check_size(std::size_t bytes, const std::string& what) {
    if (bytes > kBlobLimit)
        throw Error(ErrorCode::invalid_argument, what + " has " + std::to_string(bytes) +
                                                     " bytes; the most is " +
                                                     std::to_string(kBlobLimit));
}

}  // namespace

NodeMember::~NodeMember() {
    alive_.reset();
    if (link_.close)
        link_.close();
}

void NodeMember::leave_head() {
    if (const auto close = std::exchange(link_, {}).close)
        close();
    head_lost_ = true;
    kept_commands_.clear();
    kept_loss_.clear();
}

void NodeMember::follow(int head, Link link) {
    leave_head();
    head_ = head;
    link_ = std::move(link);
    head_lost_ = false;
}

NodeMember::Link link_to_head(NodeMember& member, const std::string& who,
                              const std::shared_ptr<ControlConnection>& connection) {
    NodeMember* const target = &member;
    connection->set_handlers(
        {.on_ready = {},
         .on_message =
             [target, who](control::Message&& message) {
                 try {
                     target->deliver(std::move(message));
                 } catch (const Error& error) {
                     if (error.code() != ErrorCode::mismatch)
                         throw;
                     target->head_lost(who + " cannot be understood: " + error.what());
                 }
             },
         .on_end = [target,
                    who](const ConnectionEnd& end) { target->head_lost(describe_end(who, end)); }});
    return {.send = [connection](control::Message&& message) { connection->send(message); },
            .close =
                [connection] {
                    connection->set_handlers({});
                    connection->close();
                },
            .silent_for = [connection] { return connection->silent_for(); }};
}

void NodeMember::set_handlers(Handlers handlers) {
    handlers_ = std::move(handlers);
    if (kept_commands_.empty() && kept_loss_.empty())
        return;
    asio::post(io_, [this, alive = alive()] {
        if (!alive.expired())
            hand_over_kept();
    });
}

void NodeMember::hand_over_kept() {
    const auto alive = this->alive();
    const auto handlers = handlers_;
    for (const auto& command : std::exchange(kept_commands_, {})) {
        if (handlers.on_command)
            handlers.on_command(command);
        if (alive.expired())
            return;
    }
    const std::string loss = std::exchange(kept_loss_, {});
    if (!loss.empty() && handlers.on_head_lost)
        handlers.on_head_lost(loss);
}

void NodeMember::deliver(control::Message&& message) {
    if (auto* command = std::get_if<control::Command>(&message)) {
        if (std::holds_alternative<control::Finish>(*command))
            finished_ = true;
        if (const auto* added = std::get_if<control::NodeAdded>(command))
            count_ = std::max(count_, added->node + 1);
        kept_commands_.push_back(std::move(*command));
        if (handlers_.on_command)
            hand_over_kept();
    } else if (auto* done = std::get_if<control::FenceDone>(&message)) {
        inbox_.deliver(std::move(*done));
    } else if (auto* relay = std::get_if<control::Relay>(&message)) {
        inbox_.deliver(std::move(*relay));
    } else {
        throw Error(ErrorCode::mismatch, "the head sent what only a node may send");
    }
}

void NodeMember::head_lost(const std::string& why) {
    if (std::exchange(head_lost_, true) || finished_)
        return;
    kept_loss_ = why;
    if (handlers_.on_head_lost)
        hand_over_kept();
}

void NodeMember::send(control::Message&& message) {
    if (!head_lost_ && link_.send)
        link_.send(std::move(message));
}

void NodeMember::deliver_later(control::Message&& message) {
    asio::post(io_, [this, alive = alive(), message = std::move(message)]() mutable {
        if (!alive.expired())
            deliver(std::move(message));
    });
}

void NodeMember::check_node(int node) const {
    if (node < 0 || node >= count_)
        throw Error(ErrorCode::invalid_argument,
                    "node " + std::to_string(node) + " does not exist");
}

// Sorted, each once; no node at all means every node.
std::vector<int> NodeMember::tidy(std::vector<int> nodes) const {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    if (nodes.size() == static_cast<std::size_t>(count_in_generation_))
        nodes.clear();
    return nodes;
}

void NodeMember::fence(int generation, const std::string& name, const std::vector<int>& nodes,
                       std::string blob, FenceHandler on_done) {
    check_size(blob.size(), "the contribution to fence \"" + name + "\"");
    for (const int node : nodes)
        check_node(node);
    control::Fence fence{generation, name, tidy(nodes), std::move(blob)};
    const bool alone = count_ == 1 || fence.nodes == std::vector{self_};
    if (!alone && !fence.nodes.empty() &&
        !std::binary_search(fence.nodes.begin(), fence.nodes.end(), self_))
        throw Error(ErrorCode::invalid_argument, "fence \"" + name + "\" is not over this node");
    inbox_.expect_fence(generation, name, std::move(on_done));
    if (!alone)
        return send(std::move(fence));
    control::FenceDone done;
    done.generation = generation;
    done.name = name;
    if (!fence.blob.empty())
        done.blobs.emplace_back(self_, std::move(fence.blob));
    deliver_later(std::move(done));
}

void NodeMember::relay(control::RelayChannel channel, int generation, int destination,
                       std::string bytes) {
    check_size(bytes.size(), "what is relayed to node " + std::to_string(destination));
    check_node(destination);
    control::Relay relay{static_cast<std::uint8_t>(channel), generation, self_, destination,
                         std::move(bytes)};
    if (destination == self_)
        deliver_later(std::move(relay));
    else
        send(std::move(relay));
}

// Posted, so that what was kept is not handed over from within this call.
void NodeMember::on_relay(control::RelayChannel channel, int generation, RelayHandler handler) {
    asio::post(
        io_, [this, alive = alive(), channel, generation, handler = std::move(handler)]() mutable {
            if (!alive.expired())
                inbox_.listen(channel, generation, std::move(handler));
        });
}

}  // namespace autolaunch::launcher
