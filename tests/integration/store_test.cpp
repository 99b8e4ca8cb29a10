// Our store client and server over real sockets, and peers that misbehave.
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "store/hosted_store.hpp"
#include "store/protocol.hpp"
#include "store_peer.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/store.hpp>

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <filesystem>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace store_test {

using namespace autolaunch;
using namespace std::chrono_literals;
using autolaunch::testing::is_closed_by_peer;
using autolaunch::testing::raw_peer;
using autolaunch::testing::raw_send;

namespace {

constexpr char kSilentHost[] = "resolver-is-silent.invalid";
std::atomic<bool> resolver_may_end{false};

}  // namespace

/// A resolver that never comes back for one name. It stands before libc's.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
    const bool numeric = (hints->ai_flags & AI_NUMERICHOST) != 0;
    while (!numeric && host != nullptr && std::string_view(host) == kSilentHost &&
           !resolver_may_end)
        std::this_thread::sleep_for(1ms);
    const auto next = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    return next(host, service, hints, found);
}

namespace {

constexpr auto kLong = 60s;

Store connect(const HostedStore& server, const std::string& prefix = {}) {
    StoreOptions options;
    options.port = server.port();
    options.prefix = prefix;
    options.timeout = kLong;
    return Store::connect(options);
}

std::string validated(store::Command command) {
    std::string out(1, '\0');
    store::append_u32(out, store::kValidationMagic);
    out.push_back(static_cast<char>(command));
    return out;
}

}  // namespace

TEST_CASE("every operation does what the header says") {
    const HostedStore server({});
    Store store = connect(server, "job/0");
    const std::vector<std::string> both = {"a", "b"};
    store.set("a", std::string("\0binary\xff", 8));
    CHECK(store.get("a") == std::string("\0binary\xff", 8));
    CHECK(store.add("n", 3) == 3);
    CHECK(store.add("n", -5) == -2);
    CHECK(store.get("n") == "-2");
    store.append("a", "+");
    CHECK(store.get("a").size() == 9);
    CHECK(store.compare_set("c", "x", "y") == "x");
    CHECK(store.compare_set("c", "", "y") == "y");
    CHECK_FALSE(store.check(both));
    store.multi_set(both, std::vector<std::string>{"1", ""});
    CHECK(store.check(both));
    CHECK(store.multi_get(both) == std::vector<std::string>{"1", ""});
    CHECK(store.key_count() == 4);
    CHECK(store.delete_key("a"));
    CHECK_FALSE(store.delete_key("a"));
    CHECK(connect(server).get("job/0/n") == "-2");  // the prefix is part of the key
}

TEST_CASE("many clients wait for one another without polling") {
    const HostedStore server({});
    constexpr int kClients = 16;
    constexpr int kRounds = 20;
    std::atomic<int> finished{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kClients; ++rank) {
        threads.emplace_back([&, rank] {
            Store store = connect(server);
            for (int round = 0; round < kRounds; ++round) {
                const std::string name = "round" + std::to_string(round);
                if (store.add(name, 1) == kClients)
                    store.set(name + "/done", std::to_string(rank));
                store.get(name + "/done");
            }
            ++finished;
        });
    }
    for (auto& thread : threads)
        thread.join();
    CHECK(finished == kClients);
    CHECK(connect(server).key_count() == 2 * kRounds);
}

TEST_CASE("a wait that times out is taken back and the connection goes on") {
    const HostedStore server({});
    Store store = connect(server);
    CHECK_THROWS_AS(store.get("never", 30ms), TimeoutError);
    CHECK_THROWS_AS(store.wait(std::vector<std::string>{"never", "ever"}, 1ms), TimeoutError);
    Store other = connect(server);
    other.set("never", "1");  // must not wake the first into a stray reply
    other.set("ever", "2");
    CHECK(store.get("never") == "1");
    CHECK(store.add("n", 1) == 1);
}

TEST_CASE("large values pass, and values above the limit cost the connection") {
    StoreServerOptions options;
    options.limits.value_bytes = 32U << 20;
    const HostedStore server(options);
    Store store = connect(server);
    std::string value(32U << 20, '\0');
    for (std::size_t i = 0; i < value.size(); ++i)
        value[i] = static_cast<char>(i * 2654435761U >> 13);
    store.set("large", value);
    CHECK(store.get("large") == value);
    Store greedy = connect(server);
    try {
        greedy.set("too large", value + "x");
        greedy.key_count();
        FAIL("a value above the limit was taken");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::closed);
    }
    CHECK_THROWS_AS(greedy.key_count(), Error);  // and stays closed
    CHECK(store.key_count() == 1);
}

TEST_CASE("garbage and half-open peers cost only their own connection") {
    const HostedStore server({});
    Store store = connect(server);
    const UniqueFd half_open = raw_peer(server.port());
    raw_send(half_open, validated(store::Command::set) + "\x05");
    const UniqueFd silent = raw_peer(server.port());
    const UniqueFd browser = raw_peer(server.port());
    raw_send(browser, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    CHECK(is_closed_by_peer(browser));
    const UniqueFd unknown = raw_peer(server.port());
    raw_send(unknown, validated(static_cast<store::Command>(99)));
    CHECK(is_closed_by_peer(unknown));
    const UniqueFd adder = raw_peer(server.port());
    store.set("word", "seven");
    CHECK(store.get("word") ==
          "seven");  // SET has no reply: without this the other connection's ADD might come first
    std::string add = validated(store::Command::add);
    store::append_bytes(add, "/word");
    store::append_u64(add, 1);
    raw_send(adder, add);
    CHECK(is_closed_by_peer(adder));
    CHECK(store.get("word") == "seven");
}

TEST_CASE("a client that goes away while it waits leaves nothing behind") {
    HostedStore server({});
    {
        const UniqueFd waiter = raw_peer(server.port());
        std::string wait = validated(store::Command::wait);
        store::append_u64(wait, 1);
        store::append_bytes(wait, "/k");
        raw_send(waiter, wait);
    }
    CHECK(server.wait_until_unused(Deadline::after(kLong)));
    Store store = connect(server);
    store.set("k", "v");
    CHECK(store.get("k") == "v");
}

TEST_CASE("who asks and never reads is not served further, and the others are") {
    const HostedStore server({});
    Store store = connect(server);
    store.set("large", std::string(4U << 20, 'x'));
    const UniqueFd deaf = raw_peer(server.port(), 4096);
    std::string flood = validated(store::Command::get);
    store::append_bytes(flood, "/large");
    const std::string one = flood.substr(5);
    for (int i = 0; i < 500; ++i)
        flood += one;  // 2 GB of replies, were they made
    raw_send(deaf, flood);
    CHECK(store.get("large").size() == 4U << 20);
    CHECK(store.add("n", 1) == 1);
}

TEST_CASE("connecting waits for a server that starts late, and says so when none does") {
    std::uint16_t port = 0;
    { port = HostedStore({}).port(); }
    StoreOptions options;
    options.port = port;
    options.timeout = 50ms;
    CHECK_THROWS_AS(Store::connect(options), TimeoutError);
    options.timeout = kLong;
    auto late = std::async(std::launch::async, [&] { return Store::connect(options).add("n", 1); });
    std::this_thread::sleep_for(50ms);
    StoreServerOptions there;
    there.port = port;
    const HostedStore server(there);
    CHECK(late.get() == 1);
}

TEST_CASE("a server that ends wakes its waiters with an error") {
    auto server = std::make_unique<HostedStore>(StoreServerOptions{});
    Store store = connect(*server);
    auto waiting = std::async(std::launch::async, [&] {
        try {
            store.get("never");
            return ErrorCode::system;
        } catch (const Error& error) {
            return error.code();
        }
    });
    std::this_thread::sleep_for(20ms);
    server.reset();
    CHECK(waiting.get() == ErrorCode::closed);
}

TEST_CASE("the server takes numeric addresses only, and says when a port is taken") {
    StoreServerOptions options;
    options.address = "host.invalid";
    CHECK_THROWS_AS(HostedStore{options}, Error);
    options.address = "0.0.0.0";
    const HostedStore server(options);
    CHECK(connect(server).add("n", 1) == 1);
    options.port = server.port();
    CHECK_THROWS_AS(HostedStore{options}, SystemError);  // taken
}

TEST_CASE("one server is reached over IPv4, IPv6 and by name") {
    StoreServerOptions everywhere;
    everywhere.address = every_address();
    const HostedStore server(everywhere);
    StoreOptions options;
    options.port = server.port();
    options.timeout = kLong;
    int sum = 0;
    std::vector<std::string> hosts = {"127.0.0.1", "localhost"};
    if (everywhere.address == "::")
        hosts.emplace_back("::1");
    for (const std::string& host : hosts) {
        options.host = host;
        CHECK(Store::connect(options).add("n", 1) == ++sum);
    }
}

TEST_CASE("a resolver that does not answer is waited for until the deadline only") {
    StoreOptions options;
    options.host = kSilentHost;
    options.port = 1;
    options.timeout = 30ms;
    CHECK_THROWS_AS(Store::connect(options), TimeoutError);
    resolver_may_end = true;  // the look-up that was left behind ends now, and finds nobody
    std::this_thread::sleep_for(20ms);
    CHECK_THROWS_AS(Store::connect(options), TimeoutError);
}

TEST_CASE("no socket of the server reaches a program that is executed") {
    const HostedStore server({});
    Store store = connect(server);
    store.set("k", "v");
    CHECK(store.get("k") == "v");
    int sockets = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int fd = std::stoi(entry.path().filename().string());
        struct stat status {};
        if (::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode) || fd <= 2)
            continue;
        ++sockets;
        CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    }
    CHECK(sockets >= 3);  // listening, accepted, and the client's own
}

}  // namespace store_test
