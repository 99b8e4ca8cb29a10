#include "supervise/job_table.hpp"

namespace autolaunch::launcher {

namespace {

// clang-format off
constexpr auto kJobTable = [] {
    using S = JobState;
    using E = JobEvent;
    using A = JobAction;
    return TransitionTable<S, kJobStates, E, kJobEvents, A>({
        {S::starting,   E::started,              A::none,              S::running},
        {S::starting,   E::rank_failed,          A::terminate_ranks,   S::restarting},
        {S::starting,   E::rank_failed_for_good, A::terminate_ranks,   S::failing},
        {S::starting,   E::stop_asked,           A::ask_ranks_to_stop, S::stopping},
        {S::starting,   E::stop_asked_again,     A::kill_ranks,        S::stopping},
        {S::starting,   E::keeper_gone,          A::kill_ranks,        S::stopping},
        {S::starting,   E::all_ended,            A::finish,            S::finished},
        {S::starting,   E::node_lost,            A::terminate_ranks,   S::failing},
        {S::starting,   E::node_missed,          A::terminate_ranks,   S::restarting},

        {S::running,    E::rank_failed,          A::terminate_ranks,   S::restarting},
        {S::running,    E::rank_failed_for_good, A::terminate_ranks,   S::failing},
        {S::running,    E::stop_asked,           A::ask_ranks_to_stop, S::stopping},
        {S::running,    E::stop_asked_again,     A::kill_ranks,        S::stopping},
        {S::running,    E::keeper_gone,          A::kill_ranks,        S::stopping},
        {S::running,    E::all_ended,            A::finish,            S::finished},
        {S::running,    E::node_lost,            A::terminate_ranks,   S::failing},
        {S::running,    E::node_missed,          A::terminate_ranks,   S::restarting},
        {S::running,    E::renew,                A::ask_ranks_to_save, S::restarting},

        {S::stopping,   E::stop_asked_again,     A::kill_ranks,        S::stopping},
        {S::stopping,   E::keeper_gone,          A::kill_ranks,        S::stopping},
        {S::stopping,   E::grace_over,           A::kill_ranks,        S::stopping},
        {S::stopping,   E::all_ended,            A::finish,            S::finished},
        {S::stopping,   E::hung,                 A::give_up,           S::finished},

        // The ranks have their SIGTERM: a stop only cancels what was to follow.
        {S::restarting, E::rank_failed_for_good, A::none,              S::failing},
        {S::restarting, E::no_restart,           A::none,              S::failing},
        {S::restarting, E::stop_asked,           A::none,              S::stopping},
        {S::restarting, E::stop_asked_again,     A::kill_ranks,        S::stopping},
        {S::restarting, E::keeper_gone,          A::kill_ranks,        S::stopping},
        {S::restarting, E::grace_over,           A::kill_ranks,        S::restarting},
        {S::restarting, E::all_ended,            A::wait_to_restart,   S::waiting},
        {S::restarting, E::node_lost,            A::none,              S::failing},
        {S::restarting, E::hung,                 A::give_up,           S::finished},

        // A stop changes nothing: the failure came first.
        {S::failing,    E::restart_after_all,    A::none,              S::restarting},
        {S::failing,    E::stop_asked_again,     A::kill_ranks,        S::failing},
        {S::failing,    E::keeper_gone,          A::kill_ranks,        S::failing},
        {S::failing,    E::grace_over,           A::kill_ranks,        S::failing},
        {S::failing,    E::all_ended,            A::finish,            S::finished},
        {S::failing,    E::hung,                 A::give_up,           S::finished},

        // No rank is there.
        {S::waiting,    E::stop_asked,           A::finish,            S::finished},
        {S::waiting,    E::stop_asked_again,     A::finish,            S::finished},
        {S::waiting,    E::keeper_gone,          A::finish,            S::finished},
        {S::waiting,    E::wait_over,            A::start_generation,  S::starting},
        {S::waiting,    E::node_lost,            A::finish,            S::finished},
    });
}();
// clang-format on
static_assert(kJobTable.lists_each_pair_once());
static_assert(kJobTable.lists_changes_only());
static_assert(kJobTable.reaches_every_state_from(JobState::starting));

}  // namespace

JobTransition transition(JobState state, JobEvent event) { return kJobTable(state, event); }

}  // namespace autolaunch::launcher
