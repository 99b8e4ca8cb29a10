// What a control connection costs: CPU time at each end from the accepted socket to the proof of
// the key, and memory at the head while idle.
//
//     control_connections [CONNECTIONS=4000] [munge|given]
//
// `given` is a key that a person keeps: its handshake makes a second secret (docs/adr/0009).

#include "control/control_connection.hpp"
#include "control/control_security.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

using namespace autolaunch::launcher;
using asio::ip::tcp;

namespace {

constexpr auto kTimeLimit = std::chrono::seconds(60);

double cpu_us() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

long resident_bytes() {
    long pages = 0;
    std::ifstream statm("/proc/self/statm");
    statm >> pages >> pages;
    return pages * ::sysconf(_SC_PAGESIZE);
}

/// One end of all the connections.
struct End {
    asio::io_context io;
    std::vector<std::shared_ptr<ControlConnection>> connections;
    std::size_t ready = 0;

    ControlConnection::Handlers handlers() {
        return {[this] { ++ready; },
                {},
                [](const ConnectionEnd& end) {
                    std::fprintf(stderr, "control_connections: %s\n", end.reason.c_str());
                    std::exit(1);
                }};
    }
    void run(std::size_t count) {
        const auto until = std::chrono::steady_clock::now() + kTimeLimit;
        while (ready < count && std::chrono::steady_clock::now() < until)
            io.run_one_for(std::chrono::seconds(1));
        if (ready < count)
            std::exit(1);
    }
};

void run_nodes(std::size_t count, const tcp::endpoint& head, const KeyPlan& plan,
               const JobIdentity& identity) {
    End end;
    const auto security = ControlSecurity::for_node(end.io, identity, plan);
    const double begin = cpu_us();
    for (std::size_t i = 0; i < count; ++i) {
        tcp::socket socket(end.io);
        socket.connect(head);
        end.connections.push_back(
            ControlConnection::connect(std::move(socket), security, {}, end.handlers()));
        end.io.poll();
    }
    end.run(count);
    std::printf("node   %6.1f us of CPU a connection, connect(2) included\n",
                (cpu_us() - begin) / static_cast<double>(count));
    std::fflush(stdout);
    end.io.run_for(kTimeLimit);
}

void run_head(std::size_t count, tcp::acceptor& acceptor, End& end, HeadKey key,
              const JobIdentity& identity) {
    const auto security = ControlSecurity::for_head(identity, std::move(key));
    const auto per_connection = [count](auto total) {
        return static_cast<double>(total) / static_cast<double>(count);
    };
    end.connections.reserve(count);
    const std::size_t heap_before = ::mallinfo2().uordblks;
    const long resident_before = resident_bytes();
    const double begin = cpu_us();
    while (end.connections.size() < count) {
        end.connections.push_back(
            ControlConnection::accept(acceptor.accept(), security, {}, end.handlers()));
        end.io.poll();
    }
    end.run(count);
    std::printf("head   %6.1f us of CPU a connection, accept(2) included\n",
                per_connection(cpu_us() - begin));
    end.io.run_for(std::chrono::milliseconds(500));
    std::printf("head   %6.0f bytes of heap a connection, %.0f resident\n",
                per_connection(::mallinfo2().uordblks - heap_before),
                per_connection(resident_bytes() - resident_before));
}

}  // namespace

int main(int argc, char** argv) {
    const auto count = static_cast<std::size_t>(argc > 1 ? std::atoi(argv[1]) : 4000);
    const bool given = argc > 2 && std::string(argv[2]) == "given";
    const rlimit files{count + 100, count + 100};
    ::setrlimit(RLIMIT_NOFILE, &files);

    const JobIdentity identity{"slurm/4711.0", {}};
    JobKey::Bytes bytes{};
    bytes.fill(7);
    const JobKey key(given ? JobKey::Source::given : JobKey::Source::run_directory, bytes);
    KeyPlan plan;
    if (given)
        plan.given = key;
    plan.shared_file =
        std::filesystem::temp_directory_path() / ("autolaunch-bench-" + std::to_string(::getpid()));

    End end;
    tcp::acceptor acceptor(end.io, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
    acceptor.listen(4096);
    const pid_t nodes = ::fork();
    if (nodes == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_nodes(count, acceptor.local_endpoint(), plan, identity);
        ::_exit(1);
    }
    run_head(count, acceptor, end,
             {key, {}, given ? KeyFile() : KeyFile(plan.shared_file, key), ""}, identity);
    ::kill(nodes, SIGKILL);
    ::waitpid(nodes, nullptr, 0);
    return 0;
}
