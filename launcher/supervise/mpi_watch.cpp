#include "supervise/mpi_watch.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using std::chrono::milliseconds;

// Between two looks. Programs that import much come to MPI_Init late.
constexpr std::array<milliseconds, 6> kPauses = {milliseconds(300),    milliseconds(700),
                                                 milliseconds(3'000),  milliseconds(11'000),
                                                 milliseconds(45'000), milliseconds(300'000)};
// After an MPI library was opened. From there to the end of MPI_Finalize it is a tenth of a second
// at least, and a second on a busy machine.
constexpr int kCloseLooks = 40, kLooksAfterOpen = 75;
constexpr milliseconds pause_after(int looks) { return milliseconds(looks < kCloseLooks ? 4 : 25); }
constexpr std::size_t kLooksUntilLate = 4;  // in MPI_Init others are waited for since 15 s or more

constexpr const char* kRemedy =
    "Does something on its way clean the environment (env -i, sudo, a container)? Is each rank "
    "meant to use MPI alone? Then say --mpi none";

std::string describe(const UnservedMpi& found) {
    return found.mpi.library + " in " + found.program + ", pid " + std::to_string(found.pid);
}

std::string number_list(std::vector<int> ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + format_list(ranks);
}

}  // namespace

MpiWatch::MpiWatch(asio::io_context& io, MpiService& service,
                   const std::vector<std::string>& environment, Handlers handlers)
    : service_(service),
      handlers_(std::move(handlers)),
      timer_(io),
      soon_(io),
      library_watch_(io, list_mpi_libraries(environment), [this] {
          since_open_ = 0;
          look_soon();
      }) {
    wait();
}

void MpiWatch::add(const Watched& rank) { ranks_.push_back(rank); }

void MpiWatch::set_identity(const std::string& name_space, const std::string& port) {
    name_space_ = name_space;
    port_ = port;
}

void MpiWatch::ended(int rank) {
    for (Watched& watched : ranks_)
        if (watched.rank == rank)
            watched.running = false;
}

void MpiWatch::wait() {
    timer_.expires_after(kPauses[std::min(looks_, kPauses.size() - 1)]);
    timer_.async_wait([this](const std::error_code& canceled) {
        if (!canceled)
            look();
    });
}

void MpiWatch::look() {
    ++looks_;
    look_for_strays();
    if (!over_ && looks_ >= kLooksUntilLate)
        look_for_latecomers();
    if (!over_)
        wait();
}

// One process alone may be a tool that one rank has started on purpose: N jobs in the place of one
// are on all ranks. Where nothing proves that MPI_Init was called, it is a warning.
void MpiWatch::look_for_strays() {
    std::optional<std::pair<int, UnservedMpi>> first;
    bool everywhere = true;
    for (const Watched& rank : ranks_) {
        if (!rank.running)
            continue;
        if (service_.has_connected(rank.local_rank))
            return;
        const auto found = find_unserved_mpi(rank.pid, name_space_, port_);
        everywhere = everywhere && found && found->mpi.initialised;
        if (found && !first && (found->mpi.initialised || found->identity == MpiIdentity::none))
            first.emplace(rank.rank, *found);
    }
    if (!first)
        return;
    const auto& [rank, found] = *first;
    if (everywhere) {
        report_alone(rank, found);
    } else if (looks_ > 1 && !std::exchange(warned_of_library_, true)) {
        handlers_.warn("rank " + std::to_string(rank) + " has loaded MPI without being told who " +
                       "it is (" + describe(found) +
                       "): where it calls MPI_Init, it is rank 0 of 1. " + kRemedy);
    }
}

void MpiWatch::report_alone(int rank, const UnservedMpi& found) {
    over_ = true;
    handlers_.on_fault(rank, {"uses MPI and has not come to autolaunch for it (" + describe(found) +
                                  "), and so do all ranks here: each is rank 0 of 1. " + kRemedy,
                              exit_code::kUnservedMpi, false});
}

void MpiWatch::look_soon() {
    if (over_ || since_open_ >= kLooksAfterOpen || looks_left_ == 0)
        return;
    soon_.expires_after(pause_after(since_open_));
    soon_.async_wait([this](const std::error_code& canceled) {
        if (canceled || over_)
            return;
        ++since_open_;
        --looks_left_;
        look_for_short_ones();
        look_soon();
    });
}

// Only what has no variables of ours: others may be about to come. Ranks need not be in MPI at the
// same time, so what was seen is kept.
void MpiWatch::look_for_short_ones() {
    std::optional<std::pair<int, UnservedMpi>> seen;
    for (Watched& rank : ranks_) {
        if (service_.has_connected(rank.local_rank))
            return;
        if (!rank.running || rank.alone)
            continue;
        const auto found = find_unserved_mpi(rank.pid, name_space_, port_, true);
        rank.alone = found && found->mpi.initialised;
        if (rank.alone)
            seen.emplace(rank.rank, *found);
    }
    const bool all =
        std::all_of(ranks_.begin(), ranks_.end(), [](const Watched& rank) { return rank.alone; });
    if (seen && all)
        report_alone(seen->first, seen->second);
}

void MpiWatch::look_for_latecomers() {
    std::vector<int> waiting, missing;
    for (const Watched& rank : ranks_)
        (service_.has_connected(rank.local_rank) ? waiting : missing).push_back(rank.rank);
    if (waiting.empty() || missing.empty() || std::exchange(warned_of_waiting_, true))
        return;
    handlers_.warn(number_list(waiting) + (waiting.size() == 1 ? " has" : " have") +
                   " called MPI_Init, which waits for all; " + number_list(missing) +
                   (missing.size() == 1 ? " has" : " have") +
                   " not. Is MPI in each rank meant to be alone? Then say --mpi none");
}

}  // namespace autolaunch::launcher
