// Clients of the store on several nodes: some at the head, some at relays, with the real protocol
// on real sockets. The way between the nodes is a double that counts, and at the end the real one.
#include "rank_services/store_relay_protocol.hpp"
#include "rendezvous_nodes.hpp"
#include "secured_members.hpp"
#include "store_nodes.hpp"
#include "store_peer.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>
#include <autolaunch/store.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace store_relay_test {

using namespace autolaunch;
using namespace autolaunch::testing;
using namespace std::chrono_literals;
using store::Command;

namespace {

const std::string kReady(1, '\0');
const std::string kCanceled(1, '\1');

template <class Members>
Store connect(BasicStoreNodes<Members>& nodes, int node) {
    StoreOptions options;
    options.port = nodes.port(node);
    options.timeout = 60s;
    return Store::connect(options);
}

void wait_until(const std::function<bool()>& reached) {
    const auto deadline = Deadline::after(60s);
    while (!reached()) {
        REQUIRE_FALSE(deadline.passed());
        std::this_thread::sleep_for(1ms);
    }
}

std::string pattern(std::size_t bytes) {
    std::string value(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i)
        value[i] = static_cast<char>(i * 2654435761U >> 13);
    return value;
}

}  // namespace

TEST_CASE("every operation of our client does the same at the head and at each relay") {
    StoreNodes nodes(3);
    for (int node = 0; node < 3; ++node) {
        INFO("node ", node);
        Store store = connect(nodes, node);
        Store elsewhere = connect(nodes, (node + 1) % 3);
        const std::string name = "node" + std::to_string(node) + "/";
        const std::vector<std::string> both = {name + "a", name + "b"};
        store.set(both[0], std::string("\0binary\xff", 8));
        CHECK(elsewhere.get(both[0]) == std::string("\0binary\xff", 8));
        CHECK(store.add(name + "n", 3) == 3);
        CHECK(elsewhere.add(name + "n", -5) == -2);
        store.append(both[0], "+");
        CHECK(store.get(both[0]).size() == 9);
        CHECK(store.compare_set(name + "c", "x", "y") == "x");
        CHECK(store.compare_set(name + "c", "", "y") == "y");
        CHECK(elsewhere.compare_set(name + "c", "y", "z") == "z");
        CHECK_FALSE(store.check(both));
        store.multi_set(both, std::vector<std::string>{"1", ""});
        CHECK(store.check(both));
        CHECK(elsewhere.multi_get(both) == std::vector<std::string>{"1", ""});
        CHECK(store.multi_get({}).empty());
        CHECK(elsewhere.key_count() == store.key_count());
        CHECK(elsewhere.delete_key(both[0]));
        CHECK_FALSE(store.delete_key(both[0]));
        CHECK_THROWS_AS(store.get(name + "never", 20ms), TimeoutError);
        elsewhere.set(name + "never", "late");
        CHECK(store.get(name + "never") == "late");
    }
}

TEST_CASE("the operations that only PyTorch's client has go through a relay, too") {
    StoreNodes nodes(2);
    for (const auto& [here, there] : {std::pair(0, 1), std::pair(1, 0), std::pair(1, 1)}) {
        RawClient client(nodes.port(here));
        RawClient other(nodes.port(there));
        const std::string name = std::to_string(here) + std::to_string(there);
        client.send(request_bytes(Command::queue_push, {"q" + name}, {"one"}));
        CHECK(client.ask_number(request_bytes(Command::queue_length, {"q" + name})) == 1);
        CHECK(other.ask_number(request_bytes(Command::queue_pop, {"q" + name})) == 1);
        CHECK(other.receive(8 + 3).substr(8) == "one");
        CHECK(other.ask_number(request_bytes(Command::queue_pop, {"q" + name})) == 0);
        client.send(request_bytes(Command::barrier, {"b" + name}, {}, 2));
        client.sync();
        CHECK(other.ask(request_bytes(Command::barrier, {"b" + name}, {}, 2), 1) == kReady);
        CHECK(client.receive(1) == kReady);
        const auto count = client.ask_number(request_bytes(Command::key_count));
        CHECK(other.ask_number(request_bytes(Command::list_keys)) == count);
        other.receive(count * (8 + 3));
        CHECK(client.ask(request_bytes(Command::cancel_wait), 1) == kCanceled);
    }
}

TEST_CASE("PyTorch's older dialects are understood by a relay") {
    StoreNodes nodes(2);
    Store store = connect(nodes, 0);
    const UniqueFd torch2_0 = raw_peer(nodes.port(1));
    std::string bytes(
        1, static_cast<char>(store::command_code(store::Dialect::torch2_0, Command::append)));
    store::append_bytes(bytes, "/k");
    store::append_bytes(bytes, "v");
    raw_send(torch2_0, bytes);
    CHECK(store.get("k") == "v");
    const UniqueFd torch1 = raw_peer(nodes.port(1));
    bytes.assign(
        1, static_cast<char>(store::command_code(store::Dialect::torch1, Command::delete_key)));
    store::append_bytes(bytes, "/k");
    raw_send(torch1, bytes);
    CHECK(raw_receive(torch1, 8) == std::string("\1\0\0\0\0\0\0\0", 8));
}

TEST_CASE("a wait is woken from anywhere") {
    StoreNodes nodes(3);
    int round = 0;
    for (int waits = 0; waits < 3; ++waits) {
        for (int sets = 0; sets < 3; ++sets) {
            RawClient waiting(nodes.port(waits));
            RawClient setting(nodes.port(sets));
            const std::string key = "k" + std::to_string(round++);
            waiting.send(request_bytes(Command::wait, {key, key + "/more"}));
            waiting.sync();
            setting.send(request_bytes(Command::set, {key}, {"v"}));
            setting.send(request_bytes(Command::append, {key + "/more"}, {"v"}));
            CHECK(waiting.receive(1) == kReady);
            CHECK(waiting.ask(request_bytes(Command::wait, {key}), 1) ==
                  kReady);  // it exists already
        }
    }
}

TEST_CASE("what a node's clients wait for costs the head one message, however many they are") {
    constexpr int kNodes = 8;
    constexpr int kClients = 8;
    StoreNodes nodes(1 + kNodes);
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int node = 1; node <= kNodes; ++node)
        for (int i = 0; i < kClients; ++i)
            clients.push_back(std::make_unique<RawClient>(nodes.port(node)));
    for (const auto& client : clients)
        client->sync();
    const auto before = nodes.to_head();
    for (const auto& client : clients)
        client->send(request_bytes(Command::wait, {"k"}));
    for (const auto& client : clients)
        client->sync();
    wait_until([&] { return nodes.waiter_count() >= kNodes; });
    CHECK(nodes.to_head().messages - before.messages == kNodes);
    CHECK(nodes.waiter_count() == kNodes);
    const auto told = nodes.from_head();
    RawClient setting(nodes.port(0));
    setting.send(request_bytes(Command::set, {"k"}, {std::string(128, 'u')}));
    for (const auto& client : clients)
        CHECK(client->receive(1) == kReady);
    CHECK(nodes.from_head().messages - told.messages == kNodes);
    CHECK(nodes.to_head().messages - before.messages == kNodes);

    const auto asked = nodes.to_head();
    nodes.while_stopped([&] {
        for (const auto& client : clients)
            client->send(request_bytes(Command::get, {"k"}));
    });
    for (const auto& client : clients)
        CHECK(client->receive(8 + 128).substr(8) == std::string(128, 'u'));
    const auto gets = nodes.to_head().messages - asked.messages;
    CHECK(gets >= kNodes);
    CHECK(gets <=
          3 * kNodes);  // the first of a node, and one for those that came meanwhile, once or twice
}

TEST_CASE("ranks meet by adding, waiting and 128 binary bytes") {
    constexpr int kNodes = 4;
    constexpr int kRanks = 16;
    constexpr int kRounds = 10;
    StoreNodes nodes(kNodes);
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
        threads.emplace_back([&, rank] {
            Store store = connect(nodes, rank % kNodes);
            for (int round = 0; round < kRounds; ++round) {
                const std::string name = "round" + std::to_string(round);
                std::string unique = pattern(128);
                unique[0] = static_cast<char>(round);
                if (store.add(name, 1) == kRanks)
                    store.set(name + "/id", unique);
                if (store.get(name + "/id") == unique)
                    ++right;
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
    CHECK(right == kRanks * kRounds);
    CHECK(connect(nodes, 1).add("round0", 0) == kRanks);
}

TEST_CASE("every ADD gets its own sum") {
    constexpr int kRanks = 12;
    constexpr int kEach = 50;
    StoreNodes nodes(3);
    std::vector<std::vector<std::int64_t>> sums(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
        threads.emplace_back([&, rank] {
            Store store = connect(nodes, rank % 3);
            for (int i = 0; i < kEach; ++i)
                sums[static_cast<std::size_t>(rank)].push_back(store.add("n", 1));
        });
    for (auto& thread : threads)
        thread.join();
    std::set<std::int64_t> all;
    for (const auto& mine : sums) {
        CHECK(std::is_sorted(mine.begin(), mine.end()));
        all.insert(mine.begin(), mine.end());
    }
    CHECK(all.size() == kRanks * kEach);
    CHECK(*all.rbegin() == kRanks * kEach);
}

TEST_CASE("one push wakes one waiter, wherever they are") {
    StoreNodes nodes(3);
    std::vector<std::unique_ptr<RawClient>> waiting;
    for (int i = 0; i < 6; ++i) {
        waiting.push_back(std::make_unique<RawClient>(nodes.port(1 + i % 2)));
        waiting.back()->send(request_bytes(Command::wait, {"q"}));
        waiting.back()->sync();
    }
    wait_until([&] { return nodes.waiter_count() == 2; });
    RawClient pushing(nodes.port(0));
    for (std::size_t pushed = 1; pushed <= 6; ++pushed) {
        pushing.send(request_bytes(Command::queue_push, {"q"}, {"e"}));
        std::size_t woken = 0;
        wait_until([&] {
            std::erase_if(waiting,
                          [&](const auto& client) { return client->receive(1, 0ms) == kReady; });
            woken = 6 - waiting.size();
            return woken >= pushed;
        });
        pushing.sync();
        for (const auto& client : waiting)
            CHECK(client->receive(1, 2ms).empty());
        CHECK(woken == pushed);
    }
}

TEST_CASE("no element is lost or served twice when waiters give up meanwhile") {
    constexpr int kPoppers = 9;
    constexpr int kElements = 300;
    StoreNodes nodes(3);
    std::atomic<int> popped{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kPoppers; ++i)
        threads.emplace_back([&, i] {
            RawClient client(nodes.port(i % 3));
            while (popped < kElements) {
                client.send(request_bytes(Command::wait, {"q"}));
                if (client.receive(1, std::chrono::milliseconds(1 + i % 4)).empty()) {
                    client.send(request_bytes(Command::cancel_wait));
                    if (client.receive(1) == kCanceled)
                        continue;
                    client.receive(1);
                }
                if (client.ask_number(request_bytes(Command::queue_pop, {"q"})) == 0)
                    continue;
                client.receive(8 + 1);
                ++popped;
            }
        });
    RawClient pushing(nodes.port(1));
    for (int i = 0; i < kElements; ++i) {
        pushing.send(request_bytes(Command::queue_push, {"q"}, {"e"}));
        if (i % 10 == 0)
            std::this_thread::sleep_for(3ms);
    }
    for (auto& thread : threads)
        thread.join();
    CHECK(popped == kElements);
}

TEST_CASE("who goes while it waits leaves nothing at the head") {
    StoreNodes nodes(3);
    for (int node = 1; node < 3; ++node) {
        auto first = std::make_unique<RawClient>(nodes.port(node));
        auto second = std::make_unique<RawClient>(nodes.port(node));
        for (const auto& client : {first.get(), second.get()}) {
            client->send(request_bytes(Command::wait, {"k", "l"}));
            client->sync();
        }
        auto third = std::make_unique<RawClient>(nodes.port(node));
        third->send(request_bytes(Command::barrier, {"b"}, {}, 99));
        third->sync();
        wait_until([&] { return nodes.waiter_count() == 3; });
        first.reset();
        wait_until([&] { return nodes.connection_count(node) == 2; });
        CHECK(nodes.waiter_count() == 3);  // the second still waits for both keys
        second.reset();
        third.reset();
        wait_until([&] { return nodes.waiter_count() == 0; });
    }
    CHECK(connect(nodes, 1).add("/b", 0) == 0);  // another key: ours have a '/' before them
}

TEST_CASE("a bad request costs its own connection, at the relay and at the head") {
    StoreServerOptions options;
    options.limits.table_bytes = 1900U << 10;  // a half of it for the table
    options.limits.reply_bytes = 512U << 10;
    StoreNodes nodes(2, options);
    RawClient good(nodes.port(1));
    good.send(request_bytes(Command::set, {"word"}, {"seven"}));
    RawClient adder(nodes.port(1));
    CHECK(adder.ask_number(request_bytes(Command::add, {"n"}, {}, INT64_MAX)) == INT64_MAX);
    adder.send(request_bytes(Command::add, {"n"}, {}, 1));
    CHECK(adder.is_closed());
    RawClient speller(nodes.port(1));
    speller.send(request_bytes(Command::add, {"word"}, {}, 1));
    CHECK(speller.is_closed());
    RawClient greedy(nodes.port(1));
    greedy.send(request_bytes(Command::set, {"large"},
                              {std::string(1U << 20, 'x')}));  // has no reply of its own
    CHECK(greedy.is_closed());
    RawClient unknown(nodes.port(1));
    unknown.send("\x63");
    CHECK(unknown.is_closed());
    RawClient reader(nodes.port(1));
    good.send(request_bytes(Command::set, {"half"}, {std::string(300U << 10, 'x')}));
    good.sync();
    CHECK(good.ask_number(request_bytes(Command::key_count)) == 3);
    reader.send(request_bytes(Command::multi_get, {"half", "half"}));
    CHECK(reader.is_closed());
    CHECK(good.ask(request_bytes(Command::get, {"word"}), 8 + 5).substr(8) == "seven");
}

TEST_CASE("large values pass in both directions, and in time with everything else") {
    StoreNodes nodes(3);
    Store store = connect(nodes, 1);
    Store other = connect(nodes, 2);
    const std::string value = pattern((24U << 20) + 17);
    store.set("large", value);
    CHECK(other.get("large") == value);
    CHECK(store.get("large") == value);
    store.append("large", "+");
    CHECK(connect(nodes, 0).get("large").size() == value.size() + 1);
}

TEST_CASE("who asks and never reads holds up nobody, and is not served further") {
    StoreNodes nodes(3);
    Store same_node = connect(nodes, 1);
    Store other_node = connect(nodes, 2);
    same_node.set("large", std::string(4U << 20, 'x'));
    CHECK(same_node.get("large").size() == 4U << 20);
    RawClient deaf(nodes.port(1), 4096);
    const std::string one = request_bytes(Command::get, {"/large"});
    std::string flood;
    for (int i = 0; i < 500; ++i)
        flood += one;  // 2 GB of replies, were they made
    deaf.send(flood);
    CHECK(same_node.get("large").size() == 4U << 20);
    CHECK(other_node.get("large").size() == 4U << 20);
    CHECK(same_node.add("n", 1) == 1);
    CHECK(nodes.from_head().bytes < 40U << 20);
}

TEST_CASE("a bad item costs that item; a bad stream costs that node's clients, and nobody else's") {
    StoreNodes nodes(4);
    nodes.end_relay(3);  // we speak for it
    std::string answers;
    nodes.take_raw(3, answers);
    const std::string no_credit(4, '\0');
    std::string items;  // of a kind that is none, and a good one
    store::append_u64(items, 9);
    items.append(1, '\x7f').append(8, '\x11');
    launcher::store_relay::append(items,
                                  launcher::store_relay::Ask{5, {Command::key_count, {}, {}, 0}});
    nodes.send_raw(3, no_credit + items);
    std::string expected;
    launcher::store_relay::append(expected, launcher::store_relay::Refused{0x1111111111111111});
    launcher::store_relay::append(expected, launcher::store_relay::Reply{5, std::string(8, '\0')});
    wait_until([&] { return nodes.on_loop([&] { return answers.size() == expected.size(); }); });
    CHECK(answers == expected);

    RawClient here(nodes.port(1));
    RawClient there(nodes.port(2));
    for (RawClient* client : {&here, &there}) {
        client->send(request_bytes(Command::wait, {"k"}));
        client->sync();
    }
    wait_until([&] { return nodes.waiter_count() == 2; });
    nodes.send_raw(1, no_credit + std::string(8, '\xff'));  // a length that cannot be
    CHECK(here.is_closed());
    CHECK(nodes.waiter_count() == 1);
    RawClient late(nodes.port(1));
    late.send(request_bytes(Command::key_count));
    CHECK(late.is_closed());
    RawClient setter(nodes.port(0));  // who closes at once is nobody's, and not heard
    setter.send(request_bytes(Command::set, {"k"}, {"v"}));
    CHECK(there.receive(1) == kReady);
}

TEST_CASE("a relay that ends closes its clients' connections and takes back their waits") {
    StoreNodes nodes(3);
    RawClient waiting(nodes.port(1));
    waiting.send(request_bytes(Command::wait, {"k"}));
    waiting.sync();
    wait_until([&] { return nodes.waiter_count() == 1; });
    nodes.end_relay(1);
    CHECK(waiting.is_closed());
    wait_until([&] { return nodes.waiter_count() == 0; });
    CHECK(connect(nodes, 2).add("n", 1) == 1);
}

TEST_CASE("a node that is lost leaves no wait behind") {
    StoreNodes nodes(3);
    RawClient waiting(nodes.port(1));
    waiting.send(request_bytes(Command::wait, {"k"}));
    waiting.sync();
    wait_until([&] { return nodes.waiter_count() == 1; });
    nodes.forget(1);
    CHECK(nodes.waiter_count() == 0);
    connect(nodes, 2).set("k", "v");
    CHECK(connect(nodes, 2).get("k") == "v");
}

TEST_CASE("a new generation knows nothing of the one before") {
    StoreNodes nodes(2);
    RawClient waiting(nodes.port(1));
    waiting.send(request_bytes(Command::wait, {"never"}));
    Store before = connect(nodes, 1);
    before.set("k", "old");
    CHECK(before.get("k") == "old");
    nodes.next_generation();
    CHECK(waiting.is_closed());
    Store after = connect(nodes, 1);
    CHECK_FALSE(after.check(std::vector<std::string>{"k"}));
    CHECK(after.add("n", 1) == 1);
}

TEST_CASE("Session::store() goes through the node's relay") {
    StoreNodes nodes(2);
    const std::map<std::string, std::string> environment = {
        {"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_RANK", "0"},
        {"LOCAL_WORLD_SIZE", "1"},
        {"GROUP_RANK", "1"},
        {"GROUP_WORLD_SIZE", "2"},
        {"AUTOLAUNCH_GENERATION", "3"},
        {"TORCHELASTIC_RUN_ID", "job7"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", "1"},  // nobody is there
        {"AUTOLAUNCH_STORE", "127.0.0.1:" + std::to_string(nodes.port(1))}};
    for (const auto& [name, value] : environment)
        ::setenv(name.c_str(), value.c_str(), 1);
    Session session = Session::from_environment();
    for (const auto& [name, value] : environment)
        ::unsetenv(name.c_str());
    session.store().set("k", "v");
    CHECK(connect(nodes, 0).get("autolaunch/job7/3/k") == "v");
    CHECK(nodes.connection_count(1) == 1);
}

TEST_CASE("relays work over the encrypted control plane, large values included") {
    constexpr int kNodes = 3;
    constexpr int kRanks = 9;
    BasicStoreNodes<SecuredMembers> nodes(kNodes);
    const std::string large = pattern((12U << 20) + 5);
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
        threads.emplace_back([&, rank] {
            Store store = connect(nodes, rank % kNodes);
            if (store.add("here", 1) == kRanks)
                store.set("all", std::string(128, '\0'));
            if (store.get("all") == std::string(128, '\0'))
                ++right;
            if (rank == 4)
                store.set("large", large);  // node 1
            if (store.get("large") == large)
                ++right;
        });
    }
    for (auto& thread : threads)
        thread.join();
    CHECK(right == 2 * kRanks);
    RawClient waiting(nodes.port(2));
    waiting.send(request_bytes(Command::wait, {"never"}));
    waiting.sync();
    wait_until([&] { return nodes.waiter_count() == 1; });
    nodes.next_generation();
    CHECK(waiting.is_closed());
    CHECK(connect(nodes, 2).add("here", 1) == 1);
}

TEST_CASE("ranks of nodes that joined share the head's table, and know when it is gone") {
    constexpr std::size_t kNodes = 3;
    TestJob job(kNodes);
    job.join_all();
    REQUIRE(job.all_joined());
    auto head = std::make_unique<StoreServer>(*job.nodes[0].io, StoreServerOptions{});
    auto desk = std::make_unique<launcher::StoreRelayHead>(
        *job.nodes[0].io, *job.nodes[0].joined.member, 0, head->table());
    std::vector<std::uint16_t> ports = {head->port()};
    std::vector<std::unique_ptr<launcher::StoreRelay>> relays;
    for (std::size_t node = 1; node < kNodes; ++node) {
        auto& here = job.nodes[node];
        const int rank = here.joined.member->node_rank();
        CHECK(rank == static_cast<int>(node));
        relays.push_back(std::make_unique<launcher::StoreRelay>(*here.io, *here.joined.member, 0,
                                                                StoreServerOptions{}));
        ports.push_back(relays.back()->port());
    }
    std::atomic<int> right{0};
    std::atomic<int> ended{0};
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < 2 * kNodes; ++rank) {
        ranks.emplace_back([&, rank] {
            StoreOptions options;
            options.port = ports[rank % kNodes];
            options.timeout = 60s;
            Store store = Store::connect(options);
            if (store.add("here", 1) == 2 * kNodes)
                store.set("all", std::string(128, '\0'));
            if (store.get("all") == std::string(128, '\0'))
                ++right;
            ++ended;
        });
    }
    CHECK(job.run_until([&] { return ended == 2 * kNodes; }));
    for (auto& rank : ranks)
        rank.join();
    CHECK(right == 2 * kNodes);

    bool lost = false;
    job.nodes[1].joined.member->set_handlers(
        {{}, [&](const std::string&) {
             lost = true;
             relays[0].reset();  // as the node's supervisor does
         }});
    RawClient waiting(ports[1]);
    waiting.send(request_bytes(Command::wait, {"never"}));
    CHECK(job.run_until(
        [&] { return relays[0]->connection_count() == 1 && head->table()->waiter_count() == 1; }));
    desk.reset();
    head.reset();
    job.nodes[0].joined = {};
    CHECK(job.run_until([&] { return lost; }));
    CHECK(waiting.is_closed());
}

}  // namespace store_relay_test
