// What a crowd costs the agent: the growth of a process that listens as the agent does, at its
// peak, and how long a rank waits meanwhile. Each listener is a process of its own, the crowd is
// this one.
//
//     listener_crowd [CONNECTIONS=10000]
//
// Crowds say nothing, or begin a request and never end it, or babble 64 KiB. Those of another user
// need root. PMI-1 has no listener: each rank's socket is made before it starts.

#include "control/control_security.hpp"
#include "rank_services/session_server.hpp"
#include "rank_services/socket_directory.hpp"
#include "rendezvous/head_listener.hpp"
#include "rendezvous/reception.hpp"
#include "session/unix_address.hpp"
#include "store/protocol.hpp"
#include "store/store_server.hpp"
#include "store_nodes.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/store.hpp>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <arpa/inet.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::launcher;
using Clock = std::chrono::steady_clock;

namespace {

constexpr uid_t kOtherUser = 65534;
constexpr std::size_t kRanks = 8;
constexpr int kAsked = 20;

/// A line of /proc/PID/status, in bytes.
double memory_of(pid_t pid, const std::string& line) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    std::string word;
    double kib = 0;
    while (file >> word)
        if (word == line + ":" && file >> kib)
            break;
    return kib * 1024;
}

// The agent's own settings for a node of eight ranks.
StoreServerOptions store_options() {
    StoreServerOptions options;
    options.most_connections = 256 + 128 * kRanks;
    options.trims_memory = true;
    return options;
}

void tell(int to, const std::string& address) {
    const std::string line = address + "\n";
    if (::write(to, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        std::_Exit(1);
}

[[noreturn]] void serve_store(int node, int to) {
    testing::StoreNodes nodes(2, store_options());
    tell(to, std::to_string(nodes.port(node)));
    for (;;)
        ::pause();
}

[[noreturn]] void serve_session(int to) {
    const SocketDirectory directory;
    asio::io_context io;
    const auto path = directory.path() / "agent-0";
    const SessionServer server(
        io, path, [](const SessionPeer&, const session::RankMessage&) {},
        {.connections = 64 + 16 * kRanks, .bytes = (8 + kRanks) << 20, .on_refusal = {}});
    tell(to, path.string());
    io.run();
    std::_Exit(1);
}

[[noreturn]] void serve_control(int to) {
    asio::io_context io;
    JobKey::Bytes bytes{};
    bytes.fill(7);
    const JobKey key(JobKey::Source::run_directory, bytes);
    const auto file =
        std::filesystem::temp_directory_path() / ("autolaunch-bench-" + std::to_string(::getpid()));
    const auto security =
        ControlSecurity::for_head({"slurm/4711.0", {}}, {key, {}, KeyFile(file, key), ""});
    Reception reception(io, security, {},
                        [](const std::shared_ptr<ControlConnection>&, const std::string&) {});
    const auto port = static_cast<std::uint16_t>(20000 + ::getpid() % 10000);
    const HeadListener listener(
        io, {port, static_cast<std::uint16_t>(port + 1)},
        [&](asio::ip::tcp::socket socket) { reception.take(std::move(socket)); });
    tell(to, std::to_string(listener.port()));
    io.run();
    std::_Exit(1);
}

struct Listener {
    const char* name;
    std::function<void(int to)> serve;
    bool is_store, is_unix;
    std::string beginning;  // of a request
};

std::string begun_set() {
    std::string bytes;
    store::append_request(bytes, {store::Command::validate, {}, {}, store::kValidationMagic});
    store::append_u8(bytes, static_cast<std::uint8_t>(store::Command::set));
    store::append_bytes(bytes, "/half");
    store::append_u64(bytes, 1U << 20);
    return bytes + "not all of it";
}

UniqueFd connect_to(const Listener& listener, const std::string& address) {
    if (listener.is_unix)
        return connect_to_unix(address, Deadline::after(std::chrono::milliseconds(200)));
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address)));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
        socket.reset();
    return socket;
}

/// The slowest of some requests of a rank, in milliseconds; negative when one failed.
double slowest_ms(Store& rank) {
    double slowest = 0;
    for (int i = 0; i < kAsked; ++i) {
        const auto begin = Clock::now();
        try {
            rank.add("n", 1);
        } catch (const Error& error) {
            std::fprintf(stderr, "listener_crowd: %s\n", error.what());
            return -1;
        }
        const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
        slowest = std::max(slowest, took.count());
    }
    return slowest;
}

void run(const Listener& listener, const char* kind, const std::string& bytes, bool by_other_user,
         std::size_t count) {
    int ends[2];
    if (::pipe(ends) != 0)
        std::exit(1);
    const pid_t server = ::fork();
    if (server == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        listener.serve(ends[1]);
        std::_Exit(1);
    }
    ::close(ends[1]);
    std::string address;
    for (char byte = 0; ::read(ends[0], &byte, 1) == 1 && byte != '\n';)
        address += byte;
    ::close(ends[0]);
    std::vector<Store> rank;
    if (listener.is_store) {
        StoreOptions options;
        options.port = static_cast<std::uint16_t>(std::stoi(address));
        rank.push_back(Store::connect(options));
    }
    const double before = memory_of(server, "VmRSS");
    std::vector<UniqueFd> crowd;
    ::setfsuid(by_other_user ? kOtherUser : ::geteuid());
    for (std::size_t i = 0; i < count; ++i) {
        crowd.push_back(connect_to(listener, address));
        if (!bytes.empty() && crowd.back()) [[maybe_unused]]
            const auto sent =
                ::send(crowd.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    ::setfsuid(::geteuid());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const double slowest = rank.empty() ? 0 : slowest_ms(rank.front());
    const auto reached = static_cast<std::size_t>(
        std::count_if(crowd.begin(), crowd.end(), [](const UniqueFd& fd) { return bool(fd); }));
    std::printf("%-8s %-9s %-10s %8zu %10.1f", listener.name, by_other_user ? "another" : "our own",
                kind, reached, (memory_of(server, "VmHWM") - before) / 1048576.0);
    rank.empty() ? std::printf("%10s\n", "-") : std::printf("%10.1f\n", slowest);
    std::fflush(stdout);
    rank.clear();
    ::kill(server, SIGKILL);
    ::waitpid(server, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
    const auto count = static_cast<std::size_t>(argc > 1 ? std::atoi(argv[1]) : 10000);
    const rlimit files{count + 100, count + 100};
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0)
        std::fprintf(stderr, "listener_crowd: only as many connections as ulimit -n allows\n");
    const Listener listeners[] = {
        {"store", [](int to) { serve_store(0, to); }, true, false, begun_set()},
        {"relay", [](int to) { serve_store(1, to); }, true, false, begun_set()},
        {"session", serve_session, false, true, "{\"type\":\"hel"},
        {"control", serve_control, false, false, "autolnch\x02"}};
    std::printf("%-8s %-9s %-10s %8s %10s%10s\n", "listener", "user", "crowd", "reached",
                "MiB more", "ms");
    for (const Listener& listener : listeners) {
        for (const bool other : {false, true}) {
            if (other && ::geteuid() != 0)
                continue;
            run(listener, "silent", {}, other, count);
            run(listener, "half-open", listener.beginning, other, count);
            run(listener, "babbling", std::string(64 << 10, 'b'), other, count);
        }
    }
    return 0;
}
