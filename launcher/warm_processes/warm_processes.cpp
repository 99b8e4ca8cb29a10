#include "warm_processes/warm_processes.hpp"

#include "base/text.hpp"
#include "warm_processes/process_priority.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr int kMostLost = 2;
constexpr auto kLook = std::chrono::milliseconds(200);

}  // namespace

WarmProcesses::WarmProcesses(Times times) : times_(times), low_priority_(can_raise_priority()) {}

void WarmProcesses::rank_was_started(int local_rank, ChildSpec rank,
                                     std::vector<std::string> environment, pid_t pid) {
    Place& place = places_[local_rank];
    place.rank = std::move(rank);
    place.rank.environment = std::move(environment);
    place.rank.inherited_fd.reset();
    place.pid = pid;
    place.started_at = Clock::now();
    place.due.reset();
}

void WarmProcesses::has_none(int local_rank, const std::string& why) {
    Place& place = places_[local_rank];
    if (!std::exchange(place.off, true) && reasons_said_.insert(why).second)
        other_notes_.push_back(fmt::format(
            "restart.warm_processes: local rank {}, and those like it, have no spare: {}",
            local_rank, why));
}

void WarmProcesses::rank_said_hello(int local_rank, pid_t pid, bool spares) {
    const auto found = places_.find(local_rank);
    if (found == places_.end() || found->second.off || found->second.due)
        return;
    Place& place = found->second;
    if (!spares)
        return has_none(local_rank,
                        "its process asks for no C++ Session, in which a spare could wait; Python "
                        "ranks start from a warm interpreter (trainer.preload)");
    if (pid != place.pid)
        return has_none(local_rank, "another program is in front of the trainer");
    place.due = Clock::now() + times_.first_step;
}

void WarmProcesses::rank_trains(int local_rank) {
    const auto found = places_.find(local_rank);
    if (found != places_.end() && found->second.due)
        found->second.due = std::min(*found->second.due, Clock::now());
}

Child WarmProcesses::start(int local_rank, const ChildSpec& rank) {
    taken_pid_ = -1;
    const auto found = places_.find(local_rank);
    if (found != places_.end() && found->second.spare) {
        Place& place = found->second;
        look_at(local_rank, place);
        std::unique_ptr<SpareProcess> spare = std::move(place.spare);
        const bool ready = std::exchange(place.ready, false);
        std::string why;
        if (spare)
            why = ready ? spare->why_not(rank) : "it was not ready yet";
        if (spare && why.empty()) {
            if (auto child = spare->become(rank, times_.answer)) {
                ++taken_;
                taken_pid_ = child->pid;
                return std::move(*child);
            }
            lose(local_rank, place, spare->why_lost());
        } else if (spare) {
            note(local_rank, "it did not take the rank's place: " + why);
        }
    } else if (found != places_.end() && !found->second.off && found->second.pid > 0) {
        note(local_rank, found->second.due
                             ? "there was none yet when the rank was started anew"
                             : "there was none when the rank was started anew: its process had not "
                               "asked for a Session (C++ library)");
    }
    return spawn_child(rank);
}

void WarmProcesses::look() {
    const auto now = Clock::now();
    if (now - looked_at_ < kLook)
        return;
    looked_at_ = now;
    for (auto& [local_rank, place] : places_)
        if (!place.off)
            look_at(local_rank, place);
    for (auto& [local_rank, place] : places_) {
        if (place.off || place.spare)
            continue;
        if (!place.due && now - place.started_at > times_.unsaid)
            has_none(local_rank, "its process has not asked for a Session (C++ library)");
        else if (place.due && *place.due <= now && !is_one_starting())
            make(local_rank, place);
    }
}

bool WarmProcesses::is_one_starting() const {
    return std::any_of(places_.begin(), places_.end(),
                       [](const auto& entry) { return entry.second.spare && !entry.second.ready; });
}

void WarmProcesses::look_at(int local_rank, Place& place) {
    if (!place.spare)
        return;
    const auto age = Clock::now() - place.spare->begun_at();
    SpareProcess::State state = place.spare->look();
    if (state == SpareProcess::State::starting && age > times_.arrival) {
        place.spare->give_up(
            fmt::format("it did not come to Session::from_environment() within {} s",
                        static_cast<double>(times_.arrival.count()) / 1000));
        state = SpareProcess::State::lost;
    }
    if (state == SpareProcess::State::lost) {
        lose(local_rank, place, place.spare->why_lost());
        place.spare.reset();
        place.ready = false;
    } else if (state == SpareProcess::State::waiting && !std::exchange(place.ready, true)) {
        ready_.push_back({local_rank, place.spare->pid(),
                          std::chrono::duration_cast<std::chrono::milliseconds>(age)});
    }
}

void WarmProcesses::make(int local_rank, Place& place) {
    try {
        place.spare = std::make_unique<SpareProcess>(place.rank, low_priority_);
        ++made_;
    } catch (const Error& error) {
        lose(local_rank, place, error.what());
    }
}

void WarmProcesses::lose(int local_rank, Place& place, const std::string& why) {
    place.off = ++place.lost >= kMostLost;
    note(local_rank, place.off ? why + "; no other is started" : why);
}

void WarmProcesses::note(int local_rank, const std::string& what) {
    notes_[what].push_back(local_rank);
}

std::vector<pid_t> WarmProcesses::pids() const {
    std::vector<pid_t> pids;
    for (const auto& [local_rank, place] : places_)
        if (place.spare && place.spare->pid() > 0)
            pids.push_back(place.spare->pid());
    return pids;
}

std::vector<WarmProcesses::Ready> WarmProcesses::take_ready() { return std::exchange(ready_, {}); }

std::vector<std::string> WarmProcesses::take_notes() {
    std::vector<std::string> notes = std::exchange(other_notes_, {});
    for (const auto& [what, local_ranks] : std::exchange(notes_, {}))
        notes.push_back(fmt::format("restart.warm_processes: the spare of local rank{} {}: {}",
                                    local_ranks.size() == 1 ? "" : "s", format_list(local_ranks),
                                    what));
    return notes;
}

}  // namespace autolaunch::launcher
