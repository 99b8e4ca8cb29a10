// The store among others on its machine: other users, too many connections, too many bytes.
#include "other_user.hpp"
#include "processes.hpp"
#include "store/hosted_store.hpp"
#include "store/protocol.hpp"
#include "store_peer.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/store.hpp>

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace store_strangers_test {

using namespace autolaunch;
using namespace std::chrono_literals;
using autolaunch::testing::as_other_user;
using autolaunch::testing::can_be_other_user;
using autolaunch::testing::eventually;
using autolaunch::testing::is_closed_by_peer;
using autolaunch::testing::raw_peer;
using autolaunch::testing::raw_send;
using autolaunch::testing::RawClient;
using autolaunch::testing::request_bytes;
using store::Command;

namespace {

constexpr auto kLong = 60s;

/// What on_refusal heard, from the server's thread.
class Refusals {
public:
    void attach(StoreServerOptions& options) {
        options.on_refusal = [this](const std::string& what, const std::string&) {
            const std::lock_guard lock(mutex_);
            told_.push_back(what);
        };
    }
    std::vector<std::string> told() {
        const std::lock_guard lock(mutex_);
        return told_;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> told_;
};

Store connect(std::uint16_t port, const std::string& prefix = {}) {
    StoreOptions options;
    options.port = port;
    options.prefix = prefix;
    options.timeout = kLong;
    return Store::connect(options);
}

std::string validation() {
    return request_bytes(Command::validate, {}, {}, store::kValidationMagic);
}

bool has_ended(const UniqueFd& client) {
    char byte = 0;
    const ssize_t count = ::recv(client.get(), &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN);
}

/// The beginning of a SET whose value has so many bytes.
std::string begun_set(std::uint64_t value_bytes) {
    std::string bytes = validation();
    store::append_u8(bytes, static_cast<std::uint8_t>(Command::set));
    store::append_bytes(bytes, "/half");
    store::append_u64(bytes, value_bytes);
    return bytes;
}

}  // namespace

TEST_CASE("another user of the machine reads and writes nothing, and one line says who it was") {
    if (!can_be_other_user())
        return;
    Refusals refusals;
    StoreServerOptions options;
    refusals.attach(options);
    const HostedStore server(options);
    Store ours = connect(server.port());
    ours.set("address", "of rank 0");
    for (int i = 0; i < 3; ++i) {
        as_other_user([&] {
            const UniqueFd intruder = raw_peer(server.port());
            ::send(intruder.get(), validation().data(), validation().size(), MSG_NOSIGNAL);
            const std::string set = request_bytes(Command::set, {"/address"}, {"../tmp/evil"});
            ::send(intruder.get(), set.data(), set.size(), MSG_NOSIGNAL);
            CHECK(is_closed_by_peer(intruder));
        });
    }
    CHECK(ours.get("address") == "of rank 0");
    CHECK(connect(server.port()).get("address") == "of rank 0");
    REQUIRE(refusals.told().size() == 1);
    CHECK(refusals.told()[0].find("user 65534") != std::string::npos);
}

TEST_CASE("keys of ours are there for who has the token, and their names for nobody") {
    StoreServerOptions options;
    options.token = "00112233445566778899aabbccddeeff";
    const HostedStore server(options);
    Store rank = connect(server.port(), "autolaunch/" + options.token);
    rank.set("comm/address/1", "1 2 3");
    connect(server.port()).set("a key of the trainer's", "x");
    CHECK(rank.get("comm/address/1") == "1 2 3");
    const std::string key = "/autolaunch/" + options.token + "/comm/address/1";
    for (const std::string& guess :
         {std::string("/autolaunch/"), std::string("/autolaunch/0/comm/address/1"),
          "/autolaunch/" + options.token,
          std::string("/autolaunch/00112233445566778899aabbccddeefe/x")}) {
        for (const Command command : {Command::get, Command::set, Command::add, Command::wait,
                                      Command::delete_key, Command::multi_get}) {
            CAPTURE(guess);
            RawClient client(server.port());
            client.send(request_bytes(command, {guess},
                                      command == Command::set ? std::vector<std::string>{"evil"}
                                                              : std::vector<std::string>{}));
            CHECK(client.is_closed());
        }
    }
    RawClient curious(server.port());
    const std::string names = curious.ask(request_bytes(Command::list_keys), 8 + 8 + 23);
    CHECK(store::load_le(names.data(), 8) == 1);
    CHECK(names.find("autolaunch") == std::string::npos);
    CHECK(rank.get("comm/address/1") == "1 2 3");
}

TEST_CASE("there are only so many connections, and those that go make room") {
    Refusals refusals;
    StoreServerOptions options;
    options.most_connections = 100;
    refusals.attach(options);
    HostedStore server(options);
    Store rank = connect(server.port());
    {
        std::vector<UniqueFd> idle;
        for (int i = 0; i < 400; ++i)
            idle.push_back(raw_peer(server.port()));
        CHECK(is_closed_by_peer(idle.back()));
        CHECK(rank.add("n", 1) == 1);
        CHECK(refusals.told().size() == 1);
    }
    rank = connect(server.port());
    CHECK(rank.add("n", 1) == 2);
}

TEST_CASE("unfinished requests of many clients have a bound together, and it is given back") {
    Refusals refusals;
    StoreServerOptions options;
    options.limits.table_bytes = 8U << 20;
    options.limits.request_bytes = options.limits.value_bytes = 4U << 20;
    refusals.attach(options);
    const HostedStore server(options);
    Store rank = connect(server.port());
    for (int round = 0; round < 3; ++round) {
        std::vector<UniqueFd> greedy;
        for (int i = 0; i < 12; ++i) {
            greedy.push_back(raw_peer(server.port()));
            const std::string bytes = begun_set(3U << 20) + std::string(2U << 20, 'x');
            std::size_t sent = 0;
            while (sent < bytes.size()) {  // who is disconnected meanwhile stops
                const ssize_t count = ::send(greedy.back().get(), bytes.data() + sent,
                                             bytes.size() - sent, MSG_NOSIGNAL);
                if (count <= 0)
                    break;
                sent += static_cast<std::size_t>(count);
            }
        }
        // Whose bytes came first is served: not more than four have room for 2 MiB.
        CHECK(eventually(
            [&] { return std::count_if(greedy.begin(), greedy.end(), has_ended) >= 8; }));
        CHECK(rank.add("n", 1) == round + 1);
    }
    const std::string large(1U << 20, 'v');
    CHECK(eventually([&] {  // all of it is free again
        try {
            Store other = connect(server.port());
            other.set("large", large);
            return other.get("large") == large;
        } catch (const Error&) {
            return false;
        }
    }));
    REQUIRE(refusals.told().size() == 1);
    CHECK(refusals.told()[0].find("the store is full") != std::string::npos);
}

TEST_CASE("keys that are waited for count, too, and no more when their client has gone") {
    StoreServerOptions options;
    options.limits.table_bytes = 8U << 20;
    const HostedStore server(options);
    Store rank = connect(server.port());
    for (int round = 0; round < 3; ++round) {
        std::vector<std::string> keys;
        for (int i = 0; i < 5000; ++i)
            keys.push_back("/never/" + std::to_string(i) + std::string(200, 'k'));
        std::vector<UniqueFd> waiting;
        for (int i = 0; i < 6; ++i) {
            waiting.push_back(raw_peer(server.port()));
            raw_send(waiting.back(), validation() + request_bytes(Command::wait, keys));
        }
        CHECK(eventually(
            [&] { return std::count_if(waiting.begin(), waiting.end(), has_ended) >= 3; }));
        CHECK(rank.add("n", 1) == round + 1);
    }
}

TEST_CASE("silent, half-open and babbling clients are no matter to a rank") {
    const HostedStore server({});
    Store rank = connect(server.port());
    std::vector<UniqueFd> crowd;
    for (int i = 0; i < 300; ++i) {
        crowd.push_back(raw_peer(server.port()));
        if (i % 3 == 1)
            raw_send(crowd.back(), begun_set(1U << 20) + "not all of it");
        if (i % 3 == 2)
            raw_send(crowd.back(), "GET / HTTP/1.1\r\n\r\n");
    }
    CHECK(is_closed_by_peer(crowd[299]));
    for (int i = 0; i < 10; ++i)
        CHECK(rank.add("n", 1) == i + 1);
    CHECK(connect(server.port()).get("n") == "10");
}

}  // namespace store_strangers_test
