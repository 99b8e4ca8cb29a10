#include "generation/mpi_watch.hpp"

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
// The others. What they may take of a CPU is a thousandth, and while a process is there that has
// MPI and may call MPI_Init at any moment five thousandths.
constexpr milliseconds kSlowPause{100}, kSuspectPause{50};
constexpr int kShareOfCpu = 1000, kShareForSuspect = 200;
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

MpiWatch::MpiWatch(asio::io_context& io, MpiService& service, const Program& program,
                   Handlers handlers)
    : service_(service),
      has_mpi_(program.has_mpi),
      handlers_(std::move(handlers)),
      timer_(io),
      soon_(io),
      since_open_(kLooksAfterOpen),
      library_watch_(io, list_mpi_libraries(program.environment), [this] {
          since_open_ = 0;
          look_soon();
      }) {
    wait();
    look_soon();
}

void MpiWatch::add(const Watched& rank) { ranks_.push_back(rank); }

void MpiWatch::set_identity(const MpiNames& names) { names_ = names; }

void MpiWatch::ended(int rank) {
    bool running = false;
    for (Watched& watched : ranks_) {
        watched.running = watched.running && watched.rank != rank;
        running = running || watched.running;
    }
    if (!running && !over_)
        report_some_alone();
}

void MpiWatch::wait() {
    timer_.expires_after(kPauses[std::min(looks_, kPauses.size() - 1)]);
    timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& canceled) {
        if (!canceled && !alive.expired())
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

bool MpiWatch::anyone_has_come() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [this](const Watched& rank) {
        return service_.has_connected(rank.local_rank);
    });
}

// One process alone may be a tool that one rank has started on purpose: N jobs in the place of one
// are on all ranks. Where nothing proves that MPI_Init was called, it is a warning.
void MpiWatch::look_for_strays() {
    std::optional<std::pair<int, UnservedMpi>> first;
    bool everywhere = true;
    for (const Watched& rank : ranks_) {
        if (!rank.running)
            continue;
        const auto found = find_unserved_mpi(rank.pid, names_, states_);
        everywhere = everywhere && found && found->mpi.initialised;
        if (found && !first && (found->mpi.initialised || found->identity == MpiIdentity::none))
            first.emplace(rank.rank, *found);
    }
    if (!first || anyone_has_come())  // asked last: whoever comes does so before MPI_Init is over
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

std::chrono::steady_clock::duration MpiWatch::pause_between_looks() const {
    const bool suspect = std::any_of(ranks_.begin(), ranks_.end(), [](const Watched& rank) {
        return rank.running && rank.loaded > 0;
    });
    return std::max<std::chrono::steady_clock::duration>(
        suspect ? kSuspectPause : kSlowPause,
        last_look_ * (suspect ? kShareForSuspect : kShareOfCpu));
}

void MpiWatch::look_soon() {
    const bool close = since_open_ < kLooksAfterOpen && looks_left_ > 0;
    soon_.expires_after(close ? pause_after(since_open_) : pause_between_looks());
    soon_.async_wait([this, close, alive = std::weak_ptr(alive_)](const std::error_code& canceled) {
        if (canceled || alive.expired() || over_)
            return;
        if (close) {
            ++since_open_;
            --looks_left_;
        }
        const auto began = std::chrono::steady_clock::now();
        const bool go_on = look_for_short_ones();
        last_look_ = std::chrono::steady_clock::now() - began;
        if (go_on && !over_)
            look_soon();
    });
}

// Ranks need not be in MPI at the same time, so what was seen is kept. False: a rank has come.
bool MpiWatch::look_for_short_ones() {
    const Watched* seen = nullptr;
    bool all = true;
    for (Watched& rank : ranks_) {
        if (look_for_short_one(rank))
            seen = &rank;
        all = all && rank.alone;
    }
    if (anyone_has_come())
        return false;
    if (seen != nullptr && all)
        report_alone(seen->rank, *seen->alone);
    return true;
}

// True where it was not known before. Once a program has MPI it may use it, and end, at any moment.
bool MpiWatch::look_for_short_one(Watched& rank) {
    if (!rank.running || rank.alone)
        return false;
    auto found = find_unserved_mpi(rank.pid, names_, states_, !has_mpi_);
    const pid_t loaded = found && !found->mpi.initialised ? found->pid : -1;
    if (std::exchange(rank.loaded, loaded) != loaded && loaded > 0)
        since_open_ = 0;
    if (found && loaded < 0)
        rank.alone = std::move(found);
    return rank.alone.has_value();
}

// The others may have been too fast to be seen, or only these have started such a program.
void MpiWatch::report_some_alone() {
    const auto first = std::find_if(ranks_.begin(), ranks_.end(),
                                    [](const Watched& rank) { return rank.alone.has_value(); });
    if (first == ranks_.end() || anyone_has_come() || std::exchange(warned_of_library_, true))
        return;
    std::vector<int> alone;
    for (const Watched& rank : ranks_)
        if (rank.alone)
            alone.push_back(rank.rank);
    handlers_.warn(number_list(alone) + " used MPI without being told who " +
                   (alone.size() == 1 ? "it is" : "they are") + " (" + describe(*first->alone) +
                   "), as rank 0 of 1. " + kRemedy);
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
