#include "supervise/node_supervisor.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// Between two generations, on each node: what it sees of itself and of its neighbours.

namespace autolaunch::launcher {

namespace {

// The doctor's own messages begin with other letters, and are over.
constexpr auto kChannel = control::RelayChannel::doctor;
constexpr char kPortLetter = 'P';
constexpr std::size_t kPortBytes = 7;

std::string port_message(int request, std::uint16_t port) {
    std::string message(1, kPortLetter);
    for (int byte = 0; byte < 4; ++byte)
        message += static_cast<char>(static_cast<std::uint32_t>(request) >> (8 * byte));
    message += static_cast<char>(port & 0xff);
    message += static_cast<char>(port >> 8);
    return message;
}

// Nothing: it is none of that request.
std::optional<std::uint16_t> port_in(std::string_view message, int request) {
    if (message.size() != kPortBytes ||
        message.substr(0, kPortBytes - 2) != port_message(request, 0).substr(0, kPortBytes - 2))
        return std::nullopt;
    return static_cast<std::uint16_t>(static_cast<unsigned char>(message[kPortBytes - 2]) |
                                      static_cast<unsigned char>(message[kPortBytes - 1]) << 8);
}

// Who is asked, by node rank.
std::vector<int> asked_nodes(const control::CheckNode& ask) {
    std::vector<int> nodes;
    for (std::size_t node = 0; node < ask.addresses.size(); ++node)
        if (!ask.addresses[node].empty())
            nodes.push_back(static_cast<int>(node));
    return nodes;
}

}  // namespace

// Of the ring of nodes that are asked, this one looks at both neighbours, and sends to the next.
void NodeSupervisor::check(const control::CheckNode& ask) {
    const int self = node_.member.node_rank();
    control::NodeChecked answer{
        .generation = ask.generation, .request = ask.request, .failures = {}, .unreached = {}};
    const std::vector<int> nodes = asked_nodes(ask);
    const auto here = std::find(nodes.begin(), nodes.end(), self);
    if (!node_.check)
        return node_.member.report(std::move(answer));
    int next = self, previous = self;
    if (here != nodes.end()) {
        next = here + 1 == nodes.end() ? nodes.front() : *(here + 1);
        previous = here == nodes.begin() ? nodes.back() : *(here - 1);
    }
    NodeCheckAsk what;
    if (next != self) {
        what.next = ask.addresses[static_cast<std::size_t>(next)];
        what.previous = ask.addresses[static_cast<std::size_t>(previous)];
        what.secret = ask.secret;
    }
    what.exchange = [this, next, previous, generation = ask.generation, request = ask.request](
                        std::uint16_t port, const std::function<void(std::uint16_t)>& then) {
        node_.member.on_relay(kChannel, generation,
                              [next, request, then](int source, std::string_view bytes) {
                                  const auto theirs = port_in(bytes, request);
                                  if (source == next && theirs)
                                      then(*theirs);
                              });
        node_.member.relay(kChannel, generation, previous, port_message(request, port));
    };
    node_.check(what, [this, answer, next, previous](NodeCheckResult result) {
        control::NodeChecked found = answer;
        found.failures = std::move(result.failures);
        if (!result.reached_next)
            found.unreached.push_back(next);
        if (!result.reached_previous && previous != next)
            found.unreached.push_back(previous);
        if (result.link) {
            result.link->peer = next;
            found.links.push_back(std::move(*result.link));
        }
        node_.member.report(found);
    });
}

}  // namespace autolaunch::launcher
