#include "generation/generation.hpp"

#include "allocation/slurm_command.hpp"
#include "base/text.hpp"
#include "causes/root_cause.hpp"
#include "flight_view/last_call.hpp"
#include "generation/contained_ranks.hpp"
#include "generation/leftovers.hpp"
#include "report/units.hpp"
#include "secrets/secrets.hpp"
#include "spawn/helper_process.hpp"
#include "spawn/process_tree.hpp"

#include <algorithm>
#include <utility>

// How its ranks ended, and what they left.

namespace autolaunch::launcher {

void Generation::on_end(RankProcess& rank) {
    if (terminals_)
        terminals_->copy_all();  // its last words, before anybody quotes them
    RankExited end = rank.exited();
    if (mpi_)
        mpi_->correct(end);
    exits_.push_back(end);
    exit_times_.push_back(std::chrono::steady_clock::now());
    if (node_.input != nullptr)
        node_.input->rank_ended(rank.plan().rank);
    follower_.rank_ended(rank.plan().rank);
    if (gpu_watch_)
        gpu_watch_->rank_ended(rank.plan().rank);
    callbacks_.report(end);
    callbacks_.rank_ended();
}

std::optional<RankExited> Generation::first_failure() const {
    const auto found = std::find_if(exits_.begin(), exits_.end(), is_failure);
    return found == exits_.end() ? std::nullopt : std::optional(*found);
}

// Of one that could not say it itself.
std::string Generation::last_moment_of(std::size_t exit) const {
    using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::microseconds;
    const int number = exits_[exit].rank;
    const auto ended_at = exit_times_[exit];
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [number](const RankProcess& each) {
        return each.plan().rank == number;
    });
    const auto before = [ended_at](std::chrono::steady_clock::time_point then) {
        const auto time = duration_cast<milliseconds>(ended_at - then);
        return format_duration(std::max(milliseconds(0), time)) + " before";
    };
    std::vector<std::string> parts;
    if (rank != ranks_.end() && rank->last_step_at())
        parts.push_back("reported step " + std::to_string(exits_[exit].last_step.value_or(0)) +
                        " " + before(*rank->last_step_at()));
    if (rank != ranks_.end() && rank->phase())
        parts.push_back("began its phase \"" + rank->phase()->name + "\" " +
                        before(rank->phase()->since));
    if (auto call =
            last_call(recorders_.read(number, true),
                      duration_cast<microseconds>(std::chrono::steady_clock::now() - ended_at));
        !call.empty())
        parts.push_back("was " + std::move(call));
    return parts.empty() ? "" : "last seen: it " + join(parts, ", and ");
}

std::vector<NvmlEvent> Generation::gpu_events_of(int rank) {
    const RankProcess* const found = find(rank);
    if (!gpu_events_ || found == nullptr || !found->plan().gpu)
        return {};
    return gpu_events_->of(found->plan().gpu->bdf);
}

RankCircumstances Generation::circumstances_of(std::size_t exit) {
    const int rank = exits_[exit].rank;
    return {.may_miss_words = log_room_.cannot_keep(failures_.folder_of(rank)),
            .cannot_resume = cannot_resume_,
            .mpi_fault = mpi_ ? mpi_->fault_of(rank) : std::string(),
            .last_moment = last_moment_of(exit),
            .gpu_events = gpu_events_of(rank)};
}

control::RankFailed Generation::describe_failure() {
    const auto found = std::find_if(exits_.begin(), exits_.end(), is_failure);
    const auto exit = static_cast<std::size_t>(found - exits_.begin());
    return without_secrets(failures_.describe(*found, exit_times_[exit], circumstances_of(exit)));
}

// Here, and not where it is shown: the head need not know what this node has read in files.
control::RankFailed Generation::without_secrets(control::RankFailed failed) const {
    if (node_.secrets == nullptr)
        return failed;
    const std::vector<std::string>& masks = node_.secrets->masks();
    for (std::string* text : {&failed.stderr_tail, &failed.stdout_tail, &failed.error_text,
                              &failed.no_room, &failed.cannot_resume, &failed.core,
                              &failed.record.what, &failed.record.remedy, &failed.record.vain})
        hide_values(*text, masks);
    for (std::string& sentence : failed.record.evidence)
        hide_values(sentence, masks);
    return failed;
}

std::vector<control::RankFailed> Generation::describe_others() {
    const auto first = first_failure();
    std::vector<control::RankFailed> others;
    for (std::size_t at = 0; at < exits_.size(); ++at) {
        const RankExited& end = exits_[at];
        if (first && end.rank == first->rank)
            continue;
        if (is_failure(end))
            others.push_back(
                without_secrets(failures_.describe(end, exit_times_[at], circumstances_of(at))));
        else if (end.asked_to_stop)
            if (auto stopped = failures_.describe_stopped(end, exit_times_[at]))
                others.push_back(without_secrets(std::move(*stopped)));
    }
    others = fold_alike(std::move(others), control::kMaxFailures,
                        [](control::RankFailed& failed) -> EndRecord& { return failed.record; });
    for (auto& failed : others)
        shorten(failed);
    return others;
}

// What a rank leaves is ended with it. Where all went well nothing else would say that something
// was cut short: a program that was started with setsid or "&" may not have begun.
void Generation::tell_of_leftovers(const std::vector<pid_t>& not_ours) {
    if (std::any_of(exits_.begin(), exits_.end(),
                    [](const RankExited& end) { return end.exit_code != 0 || end.asked_to_stop; }))
        return;
    std::vector<std::string> names;
    for (const auto& rank : ranks_)
        names.insert(names.end(), rank.left_running().begin(), rank.left_running().end());
    std::vector<pid_t> known = own_processes();
    known.insert(known.end(), not_ours.begin(), not_ours.end());
    for (const pid_t helper : container_helpers(plan_.container))
        known.push_back(helper);
    for (std::string& detached : lasting_children(known, plan_.run_dir))
        names.push_back(std::move(detached));
    if (!names.empty())
        callbacks_.report(WarningRaised{leftovers_text(names)});
}

void Generation::end_leftovers() {
    watch_.reset();
    gpu_watch_.reset();
    gpu_events_.reset();
    gpu_gauges_.reset();
    auto not_ours = node_.gpu_inquiry ? node_.gpu_inquiry->dying() : std::vector<pid_t>{};
    for (const pid_t asked : SlurmCommand::under_way())  // why the ranks were to stop
        not_ours.push_back(asked);
    for (const pid_t helper : HelperProcess::lasting())
        not_ours.push_back(helper);
    if (node_.sampler != nullptr && node_.sampler->pid() > 0)
        not_ours.push_back(node_.sampler->pid());  // it goes on over generations
    if (node_.python != nullptr && node_.python->pid() > 0)
        not_ours.push_back(node_.python->pid());  // for the next generation
    if (node_.packages != nullptr && node_.packages->pid() > 0)
        not_ours.push_back(node_.packages->pid());  // for other nodes
    if (node_.stage_in != nullptr)
        for (const pid_t pid : node_.stage_in->pids())
            not_ours.push_back(pid);  // for the next generation, and for other nodes
    if (node_.warm != nullptr)
        for (const pid_t spare : node_.warm->pids())
            not_ours.push_back(spare);  // for the next generation
    await_container_ends(plan_.container);
    tell_of_leftovers(not_ours);
    for (const auto& rank : ranks_)
        if (rank.state() == RankState::left)
            not_ours.push_back(rank.pid());
    bool all_ended = end_children(not_ours, patience());
    if (stand_ins_ != nullptr)
        all_ended = stand_ins_->end_offspring(patience()) && all_ended;
    if (!all_ended)
        callbacks_.report(WarningRaised{
            "some processes that the ranks started do not end; they hang in the kernel"});
    if (terminals_)
        terminals_->copy_all();
}

void Generation::finish(LineSink& console) {
    follower_.drain(console, patience());
    for (const std::string& missing :
         {log_room_.given_up(), terminals_ ? terminals_->lost() : std::string()})
        if (!missing.empty())
            callbacks_.report(WarningRaised{missing});
    report_packages();
}

}  // namespace autolaunch::launcher
