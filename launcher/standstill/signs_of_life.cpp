#include "standstill/signs_of_life.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hang_evidence/node_state.hpp"
#include "logs/rank_files.hpp"
#include "spawn/process_tree.hpp"
#include "standstill/rank_look.hpp"
#include "standstill/socket_traffic.hpp"

#include <autolaunch/error.hpp>

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr StepWatch::Patience kSignPatience{
    .least_steps = 20, .shortest_far = std::chrono::minutes(5), .only_far = true};
constexpr std::uint64_t kMovedALittle = 64U << 10;  // of a rank, as watchdogs and heartbeats do
constexpr std::uint64_t kSentALittle = 1U << 20;    // of a node

std::uint64_t size_of(const fs::path& file) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    return error ? 0 : size;
}

// Over its links and its HCAs.
std::uint64_t sent_by_node(const fs::path& proc, const fs::path& sys) {
    std::uint64_t sum = hca_bytes(read_hca_counters(sys));
    try {
        sum += network_bytes(read_file(proc / "net/dev"));
    } catch (const Error&) {  // hidden
    }
    return sum;
}

}  // namespace

SignsOfLife::SignsOfLife(fs::path run_dir, int generation, std::optional<StepWatch::Time> told,
                         Node node)
    : run_dir_(std::move(run_dir)),
      generation_(generation),
      node_(std::move(node)),
      pace_(kSignPatience) {
    if (told)
        pace_.tell_limit(*told);
}

void SignsOfLife::look(const Ranks& ranks, Moment now) {
    if (ranks.empty() || now - output_at_ < std::chrono::seconds(1))
        return;
    output_at_ = now;
    first_rank_ = ranks.front().first;
    if (const auto bytes = printed_bytes(ranks); bytes > printed_) {
        printed_ = bytes;
        strange_traffic_ = false;
        pace_.step(0, now);
    }
    if (now - bytes_at_ < std::chrono::seconds(10))
        return;
    bytes_at_ = now;
    Counters seen = counters_of(ranks);
    const bool by_node = seen.of_node > counters_.of_node + kSentALittle;
    const bool lives = seen.moved > counters_.moved + kMovedALittle * ranks.size() ||
                       seen.nvlink > counters_.nvlink + kSentALittle ||
                       traffic_between(counters_.tcp, seen.tcp) > kMovedALittle * ranks.size() ||
                       (by_node && node_.is_ours);
    if (lives)
        pace_.alive(0, now);
    strange_traffic_ = !lives && (strange_traffic_ || (by_node && counters_.of_node > 0));
    counters_ = std::move(seen);
}

SignsOfLife::Counters SignsOfLife::counters_of(const Ranks& ranks) const {
    Counters counters{.of_node = sent_by_node(node_.proc, node_.sys), .tcp = {}};
    std::vector<pid_t> processes;
    for (const auto& [rank, pid] : ranks) {
        counters.moved += look_at_tree(pid).moved_bytes;
        const std::vector<pid_t> tree = list_tree(pid);
        processes.insert(processes.end(), tree.begin(), tree.end());
    }
    counters.tcp = tcp_traffic_of(processes);
    if (node_.gpus)
        for (const GpuPace& gpu : node_.gpus())
            counters.nvlink += gpu.nvlink_bytes;
    return counters;
}

std::optional<StepWatch::Overdue> SignsOfLife::overdue(Moment now) const {
    auto found = pace_.look(now);
    if (found) {
        found->rank = first_rank_;
        found->by_signs = true;
    }
    return found;
}

std::uint64_t SignsOfLife::printed_bytes(const Ranks& ranks) const {
    std::uint64_t bytes = 0;
    for (const auto& [rank, pid] : ranks) {
        const fs::path folder = rank_directory(run_dir_, generation_, rank);
        bytes += size_of(folder / "stdout") + size_of(folder / "stderr");
    }
    return bytes;
}

bool has_whole_node(int allowed_cpus, int online_cpus, std::optional<int> granted) {
    return allowed_cpus >= online_cpus && granted.value_or(online_cpus) >= online_cpus;
}

bool has_whole_node() {
    cpu_set_t allowed;  // of 1024 CPUs: more make it fail, and then nothing is known
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    std::optional<int> granted;
    long long cpus = 0;
    const char* const told = std::getenv("SLURM_CPUS_ON_NODE");
    if (told != nullptr && parse_integer(told, cpus))
        granted = static_cast<int>(cpus);
    return has_whole_node(CPU_COUNT(&allowed), static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
                          granted);
}

std::uint64_t network_bytes(const std::string& table) {
    std::istringstream lines(table);
    std::uint64_t sum = 0;
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos)
            continue;  // the headings
        std::istringstream fields(line.substr(colon + 1));
        std::uint64_t came = 0, other = 0, went = 0;
        fields >> came;
        for (int field = 0; field < 7; ++field)
            fields >> other;
        if (fields >> went)
            sum += came + went;
    }
    return sum;
}

}  // namespace autolaunch::launcher
