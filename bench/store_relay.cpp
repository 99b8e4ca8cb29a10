// What the job's store costs the head when ranks connect to it directly, and when each node has a
// relay: messages and bytes at the head per rank, and the time until all ranks are served. One
// process: the head, the relays and the control plane (without TLS) share one event loop, so the
// time is the work of all nodes added up.
//
//     store_relay [NODES [RANKS_PER_NODE]]       8 and 8
#include "base/deadline.hpp"
#include "store/connection.hpp"
#include "store/protocol.hpp"
#include "store_nodes.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using namespace autolaunch;
using store::Command;

namespace {

constexpr int kRounds = 21;
constexpr std::size_t kUniqueIdBytes = 128;  // NCCL's

struct Cost {
    double messages = 0, bytes = 0, microseconds = 0;
};

std::string bytes_of(Command command, const std::string& key, std::int64_t number = 0,
                     const std::string& value = {}) {
    std::string bytes;
    store::append_request(bytes, {command, {key}, {value}, number});
    return bytes;
}

/// All ranks of the job, from one thread: what they do at once goes out before anything is read.
class Ranks {
public:
    Ranks(testing::StoreNodes& nodes, int node_count, int per_node, bool relayed)
        : nodes_(nodes), relayed_(relayed), deadline_(Deadline::after(std::chrono::minutes(5))) {
        std::string hello;
        store::append_request(hello, {Command::validate, {}, {}, store::kValidationMagic});
        for (int rank = 0; rank < node_count * per_node; ++rank) {
            const auto port = nodes.port(relayed ? 1 + rank / per_node : 0);
            clients_.push_back(std::make_unique<store::Connection>("127.0.0.1", port, deadline_));
            clients_.back()->send(hello, deadline_);
        }
        all(bytes_of(Command::get, "warm"), 8);
    }

    /// Every rank sends the request and reads its reply.
    Cost all(const std::string& request, std::size_t reply_bytes) {
        return measured([&] { send(request); }, [&] { receive(reply_bytes); },
                        request.size() + reply_bytes);
    }
    /// All wait for a key, which one then sets.
    Cost wait_and_set(const std::string& key, const std::string& value) {
        const std::string wait = bytes_of(Command::wait, key);
        const std::string set = bytes_of(Command::set, key, 0, value);
        return measured(
            [&] {
                send(wait);
                clients_.front()->send(set, deadline_);
            },
            [&] { receive(1); }, wait.size() + 1);
    }

private:
    template <class Send, class Receive>
    Cost measured(Send send_all, Receive receive_all, std::size_t direct_bytes) {
        const auto in = nodes_.to_head();
        const auto out = nodes_.from_head();
        const auto begin = Deadline::Clock::now();
        send_all();
        receive_all();
        Cost cost;
        cost.microseconds =
            std::chrono::duration<double, std::micro>(Deadline::Clock::now() - begin).count();
        const auto count = static_cast<double>(clients_.size());
        cost.messages = 2;  // a request and its reply each
        cost.bytes = static_cast<double>(direct_bytes);
        if (!relayed_)
            return cost;
        const auto in_now = nodes_.to_head();
        const auto out_now = nodes_.from_head();
        cost.messages =
            static_cast<double>(in_now.messages - in.messages + out_now.messages - out.messages) /
            count;
        cost.bytes =
            static_cast<double>(in_now.bytes - in.bytes + out_now.bytes - out.bytes) / count;
        return cost;
    }
    void send(const std::string& request) {
        for (const auto& client : clients_)
            client->send(request, deadline_);
    }
    void receive(std::size_t bytes) {
        for (const auto& client : clients_)
            client->receive(bytes, deadline_);
    }

    testing::StoreNodes& nodes_;
    bool relayed_;
    Deadline deadline_;
    std::vector<std::unique_ptr<store::Connection>> clients_;
};

struct Step {
    const char* name;
    Cost (*run)(Ranks& ranks, int round);
};
const Step kSteps[] = {
    {"ADD to one key",
     [](Ranks& ranks, int) { return ranks.all(bytes_of(Command::add, "n", 1), 8); }},
    {"WAIT, and one SET",
     [](Ranks& ranks, int round) {
         return ranks.wait_and_set("id" + std::to_string(round), std::string(kUniqueIdBytes, 'u'));
     }},
    {"GET of 128 bytes",
     [](Ranks& ranks, int round) {
         return ranks.all(bytes_of(Command::get, "id" + std::to_string(round)), 8 + kUniqueIdBytes);
     }},
    {"COMPARE_SET",  // which cannot be merged
     [](Ranks& ranks, int) {
         std::string request;
         store::append_request(request, {Command::compare_set, {"c"}, {"", ""}, 0});
         return ranks.all(request, 8);
     }},
};

Cost median(std::vector<Cost> costs) {
    const auto middle = [&](double Cost::*part) {
        std::sort(costs.begin(), costs.end(),
                  [&](const Cost& a, const Cost& b) { return a.*part < b.*part; });
        return costs[costs.size() / 2].*part;
    };
    return {middle(&Cost::messages), middle(&Cost::bytes), middle(&Cost::microseconds)};
}

int run(int node_count, int per_node) {
    testing::StoreNodes direct_nodes(1);
    testing::StoreNodes relay_nodes(1 + node_count);
    Ranks direct(direct_nodes, node_count, per_node, false);
    Ranks relayed(relay_nodes, node_count, per_node, true);
    fmt::print("{} nodes x {} ranks; at the head, per rank; medians of {} rounds\n\n", node_count,
               per_node, kRounds);
    fmt::print(
        "| all ranks at once | messages direct | by relays | bytes direct | by relays | time, "
        "relays / direct |\n");
    fmt::print("|---|---|---|---|---|---|\n");
    for (const Step& step : kSteps) {
        std::vector<Cost> here, there;
        for (int round = 0; round < kRounds; ++round) {
            here.push_back(step.run(direct, round));
            there.push_back(step.run(relayed, round));
        }
        const Cost straight = median(here);
        const Cost merged = median(there);
        fmt::print("| {} | {:.0f} | {:.2f} | {:.0f} | {:.0f} | {:.2f} |\n", step.name,
                   straight.messages, merged.messages, straight.bytes, merged.bytes,
                   merged.microseconds / straight.microseconds);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    const int nodes = argc > 1 ? std::atoi(argv[1]) : 8;
    const int ranks = argc > 2 ? std::atoi(argv[2]) : 8;
    if (nodes > 0 && ranks > 0)
        return run(nodes, ranks);
    std::fprintf(stderr, "usage: store_relay [NODES [RANKS_PER_NODE]]\n");
    return 2;
} catch (const Error& error) {
    std::fprintf(stderr, "store_relay: %s\n", error.what());
    return 1;
}
