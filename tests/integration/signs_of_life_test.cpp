// What shows that ranks get on which report no steps, and what a rank lacks that lags: real
// processes, files and connections, and a made-up node where this one has no such devices.
#include "standstill/signs_of_life.hpp"
#include "../write_file.hpp"
#include "base/unique_fd.hpp"
#include "placement_watch/gpu_gauges.hpp"
#include "processes.hpp"
#include "progress/rank_activity.hpp"
#include "standstill/rank_look.hpp"
#include "standstill/socket_traffic.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace signs_of_life_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// A child that does this until it is killed.
template <class Work>
class Doer {
public:
    explicit Doer(Work work) : pid_(::fork()) {
        if (pid_ == 0) {
            for (;;)
                work();
        }
        REQUIRE(pid_ > 0);
    }
    Doer(const Doer&) = delete;
    Doer& operator=(const Doer&) = delete;
    ~Doer() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    pid_t pid() const { return pid_; }

private:
    pid_t pid_;
};

std::string lacks(pid_t pid) {
    const ActivityLook first = look_at_tree(pid);
    std::this_thread::sleep_for(1s);
    return compare_looks(first, look_at_tree(pid), state_of(pid)).what;
}

const SignsOfLife::Moment kNow{};

/// A node that is made up, and 20 signs that its ranks have given, 2 s apart.
struct MadeUp {
    explicit MadeUp(bool is_ours, std::vector<GpuPace>* gpus = nullptr) {
        fs::create_directories(root.path() / "net");
        fs::create_directories(root.path() / "class/infiniband/mlx5_0/ports/1/counters");
        send(0, 0);
        SignsOfLife::Node node{.is_ours = is_ours, .proc = root.path(), .sys = root.path()};
        if (gpus != nullptr)
            node.gpus = [gpus] { return *gpus; };
        signs = SignsOfLife(root.path(), 0, {}, node);
        fs::create_directories(root.path() / "generation-0/rank-0");
        for (int sign = 0; sign <= 30; ++sign, at += 2s) {
            write_file(root.path() / "generation-0/rank-0/stdout", std::string(sign + 1, 'x'));
            signs.look(ranks, at);
        }
    }
    void send(std::uint64_t network, std::uint64_t hca_words) {
        write_file(root.path() / "net/dev",
                   "head\n eth0: " + std::to_string(network) + " 0 0 0 0 0 0 0 0 0\n");
        write_file(root.path() / "class/infiniband/mlx5_0/ports/1/counters/port_xmit_data",
                   std::to_string(hca_words) + "\n");
    }
    /// Minutes in which this happens every 10 s, and nothing is printed.
    template <class Happens>
    bool is_overdue_after(int minutes, Happens happens) {
        for (int look = 1; look <= 6 * minutes; ++look, at += 10s) {
            happens(look);
            signs.look(ranks, at);
        }
        return signs.overdue(at).has_value();
    }
    TemporaryFolder root;
    SignsOfLife::Ranks ranks{{0, ::getpid()}};
    SignsOfLife signs;
    SignsOfLife::Moment at = kNow + 1h;
};

}  // namespace

TEST_CASE("nothing printed, read or sent for minutes is overdue") {
    MadeUp node(true);
    CHECK(node.is_overdue_after(7, [](int) {}));
    CHECK_FALSE(node.signs.has_strange_traffic());
}

TEST_CASE("bytes over the HCAs and the network are a sign of life where the node is ours alone") {
    for (const bool by_hca : {false, true}) {
        CAPTURE(by_hca);
        const auto sends = [&](MadeUp& node) {
            return [&node, by_hca](int look) {
                const std::uint64_t bytes = static_cast<std::uint64_t>(look) << 21;
                by_hca ? node.send(0, bytes / 4) : node.send(bytes, 0);
            };
        };
        MadeUp ours(true), shared(false);
        CHECK_FALSE(ours.is_overdue_after(60, sends(ours)));
        CHECK_FALSE(ours.signs.has_strange_traffic());
        CHECK(shared.is_overdue_after(7, sends(shared)));
        CHECK(shared.signs.has_strange_traffic());  // which is said
    }
    MadeUp idle(true);  // what a node sends that does nothing
    CHECK(idle.is_overdue_after(
        7, [&](int look) { idle.send(static_cast<std::uint64_t>(look) << 10, 0); }));
}

TEST_CASE("bytes over the NVLinks of the ranks' GPUs are a sign of life on any node") {
    std::vector<GpuPace> gpus{{.rank = 0}};
    MadeUp node(false, &gpus);
    CHECK_FALSE(node.is_overdue_after(60, [&](int) { gpus[0].nvlink_bytes += 8 << 20; }));
    CHECK(node.is_overdue_after(7, [](int) {}));
}

TEST_CASE("whether the node is ours, by its CPUs and the scheduler's word") {
    CHECK(has_whole_node(64, 64, {}));
    CHECK(has_whole_node(64, 64, 64));
    CHECK_FALSE(has_whole_node(64, 64, 8));  // nobody binds, and others have the rest
    CHECK_FALSE(has_whole_node(8, 64, {}));
}

TEST_CASE("TCP bytes are those of the processes that were asked for, and of no other") {
    const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    auto* address = reinterpret_cast<sockaddr*>(&here);
    REQUIRE(::bind(listening.get(), address, size) == 0);
    REQUIRE(::listen(listening.get(), 1) == 0);
    REQUIRE(::getsockname(listening.get(), address, &size) == 0);
    const Doer reader([&] {
        const int fd = ::accept(listening.get(), nullptr, nullptr);
        char bytes[4096];
        while (::read(fd, bytes, sizeof bytes) > 0) {
        }
    });
    const Doer other([] { ::pause(); });
    const UniqueFd sending(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(sending.get(), address, size) == 0);
    const auto before = tcp_traffic_of({reader.pid()});
    const std::string much(1 << 20, 'x');
    for (std::size_t sent = 0; sent < much.size();) {
        const ssize_t now = ::send(sending.get(), much.data(), much.size() - sent, MSG_NOSIGNAL);
        REQUIRE(now > 0);
        sent += static_cast<std::size_t>(now);
    }
    if (tcp_traffic_of({reader.pid()}).empty()) {
        MESSAGE("not tried: this kernel does not tell of TCP connections (sock_diag)");
        return;
    }
    CHECK(eventually(
        [&] { return traffic_between(before, tcp_traffic_of({reader.pid()})) >= much.size(); }));
    CHECK(traffic_between({}, tcp_traffic_of({other.pid()})) == 0);
    CHECK(traffic_between({{1, 10}, {2, 5}}, {{1, 15}, {3, 7}}) == 12);
}

TEST_CASE("a rank that waits for pages of a file has major faults, which are told") {
    const TemporaryFolder folder;
    struct statfs disk {};
    REQUIRE(::statfs(folder.path().c_str(), &disk) == 0);
    constexpr long kTmpfs = 0x01021994;
    if (disk.f_type == kTmpfs) {
        MESSAGE("not tried: " << folder.path() << " is memory, nothing is read from disk");
        return;
    }
    const std::string file = folder.path() / "data";
    constexpr std::size_t kBytes = 32 << 20, kPage = 4096;
    write_file(file, std::string(kBytes, 'x'));
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(::fsync(fd.get()) == 0);
    const Doer rank([&] {
        ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
        void* const map = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
        ::madvise(map, kBytes, MADV_RANDOM);
        unsigned sum = 0;
        for (std::size_t at = 0; at < kBytes; at += kPage)
            sum += static_cast<const volatile unsigned char*>(map)[at];
        ::munmap(map, kBytes);
    });
    const ActivityLook first = look_at_tree(rank.pid());
    std::this_thread::sleep_for(1s);
    const ActivityLook second = look_at_tree(rank.pid());
    if (second.major_faults == first.major_faults) {
        MESSAGE("not tried: this kernel counts no major faults");
        return;
    }
    CHECK(compare_looks(first, second, 'R').what.find("that were not in memory (major faults)") !=
          std::string::npos);
}

TEST_CASE("a neighbour on a rank's core is told of") {
    cpu_set_t allowed;
    REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed))
        ++cpu;
    const auto spin = [cpu, bound = false]() mutable {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (!bound)
            bound = ::sched_setaffinity(0, sizeof one, &one) == 0;
    };
    const Doer rank(spin), neighbour(spin);
    std::this_thread::sleep_for(100ms);
    if (look_at_tree(rank.pid()).waited == 0ms) {
        MESSAGE("not tried: this kernel does not tell how long a thread waits for a CPU");
        return;
    }
    CHECK(lacks(rank.pid()).find("of it: others compute on its cores") != std::string::npos);
}

TEST_CASE("the lanes of a PCIe link") {
    const TemporaryFolder sys;
    const fs::path device = sys.path() / "bus/pci/devices/0000:17:00.0";
    fs::create_directories(device);
    CHECK(pcie_lanes_of("0000:17:00.0", sys.path()) == 0);
    write_file(device / "current_link_width", "8\n");
    CHECK(pcie_lanes_of("0000:17:00.0", sys.path()) == 8);
    for (const char* odd : {"", "Unknown\n", "255\n", "-1\n"}) {
        write_file(device / "current_link_width", odd);
        CHECK(pcie_lanes_of("0000:17:00.0", sys.path()) == 0);
    }
}

}  // namespace signs_of_life_test
