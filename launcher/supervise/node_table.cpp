#include "supervise/node_table.hpp"

namespace autolaunch::launcher {

namespace {

// clang-format off
constexpr auto kNodeTable = [] {
    using S = NodeState;
    using E = NodeEvent;
    using A = NodeAction;
    return TransitionTable<S, kNodeStates, E, kNodeEvents, A>({
        {S::idle,             E::start,          A::start_ranks,       S::starting},
        {S::idle,             E::finish,         A::leave,             S::left},
        {S::idle,             E::head_lost,      A::leave,             S::left},
        {S::idle,             E::keeper_gone,    A::await_release,     S::awaiting_release},

        // Whatever ends a start ends it for good: no rank is started after it.
        {S::starting,         E::all_started,    A::tell_running,      S::running},
        {S::starting,         E::start_failed,   A::none,              S::failing},
        {S::starting,         E::rank_failed,    A::glance_at_signals, S::doubting},
        {S::starting,         E::rank_in_doubt,  A::wait_in_doubt,     S::doubting},
        {S::starting,         E::stop_by_user,   A::ask_ranks_to_stop, S::running},
        {S::starting,         E::stop_failed,    A::terminate_ranks,   S::running},
        {S::starting,         E::leave,          A::ask_ranks_to_leave, S::running},
        {S::starting,         E::kill,           A::kill_ranks,        S::running},
        {S::starting,         E::finish,         A::leave,             S::left},
        {S::starting,         E::head_lost,      A::orphan_ranks,      S::orphaned},
        {S::starting,         E::keeper_gone,    A::kill_ranks,        S::doomed},

        // A Finish comes early only when the head gave up on ranks that hang.
        {S::running,          E::rank_failed,    A::glance_at_signals, S::doubting},
        {S::running,          E::start_failed,   A::none,              S::failing},
        {S::running,          E::rank_in_doubt,  A::wait_in_doubt,     S::doubting},
        {S::running,          E::stop_by_user,   A::ask_ranks_to_stop, S::running},
        {S::running,          E::stop_failed,    A::terminate_ranks,   S::running},
        {S::running,          E::leave,          A::ask_ranks_to_leave, S::running},
        {S::running,          E::kill,           A::kill_ranks,        S::running},
        {S::running,          E::finish,         A::leave,             S::left},
        {S::running,          E::head_lost,      A::orphan_ranks,      S::orphaned},
        {S::running,          E::keeper_gone,    A::kill_ranks,        S::doomed},
        {S::running,          E::ranks_ended,    A::clear_up,          S::ending},
        {S::running,          E::hung,           A::name_hung,         S::running},

        // The end waits for the doubt's. A rank that fails now may do so because another was stopped.
        {S::doubting,         E::rank_in_doubt,  A::wait_in_doubt,     S::doubting},
        {S::doubting,         E::doubt_over,     A::report_failure,    S::failing},
        {S::doubting,         E::stop_signalled, A::none,              S::running},
        {S::doubting,         E::stop_by_user,   A::ask_ranks_to_stop, S::running},
        {S::doubting,         E::stop_failed,    A::terminate_ranks,   S::doubting},
        {S::doubting,         E::leave,          A::ask_ranks_to_leave, S::doubting},
        {S::doubting,         E::kill,           A::kill_ranks,        S::doubting},
        {S::doubting,         E::finish,         A::leave,             S::left},
        {S::doubting,         E::head_lost,      A::orphan_ranks,      S::orphaned},
        {S::doubting,         E::keeper_gone,    A::kill_ranks,        S::doomed},

        // One failure a generation is the head's to know.
        {S::failing,          E::stop_by_user,   A::ask_ranks_to_stop, S::failing},
        {S::failing,          E::stop_failed,    A::terminate_ranks,   S::failing},
        {S::failing,          E::leave,          A::ask_ranks_to_leave, S::failing},
        {S::failing,          E::kill,           A::kill_ranks,        S::failing},
        {S::failing,          E::finish,         A::leave,             S::left},
        {S::failing,          E::head_lost,      A::orphan_ranks,      S::orphaned},
        {S::failing,          E::keeper_gone,    A::kill_ranks,        S::doomed},
        {S::failing,          E::ranks_ended,    A::clear_up,          S::ending},
        {S::failing,          E::hung,           A::name_hung,         S::failing},

        {S::ending,           E::finish,         A::leave,             S::left},
        {S::ending,           E::head_lost,      A::none,              S::departing},
        {S::ending,           E::keeper_gone,    A::none,              S::awaiting_release},
        {S::ending,           E::cleared,        A::tell_ended,        S::idle},

        // No command can come.
        {S::orphaned,         E::keeper_gone,    A::kill_ranks,        S::orphaned},
        {S::orphaned,         E::ranks_ended,    A::clear_up,          S::departing},
        {S::orphaned,         E::grace_over,     A::kill_ranks,        S::orphaned},
        {S::orphaned,         E::hung,           A::leave,             S::left},

        {S::departing,        E::cleared,        A::leave,             S::left},

        {S::doomed,           E::finish,         A::leave,             S::left},
        {S::doomed,           E::head_lost,      A::kill_ranks,        S::orphaned},
        {S::doomed,           E::ranks_ended,    A::clear_up,          S::awaiting_release},
        {S::doomed,           E::hung,           A::leave,             S::left},

        // A generation that the head still asks for ends before it begins.
        {S::awaiting_release, E::start,          A::tell_ended,        S::awaiting_release},
        {S::awaiting_release, E::finish,         A::leave,             S::left},
        {S::awaiting_release, E::head_lost,      A::leave,             S::left},
        {S::awaiting_release, E::cleared, A::tell_and_await_release, S::awaiting_release},
        {S::awaiting_release, E::hung,           A::leave,             S::left},
    });
}();
// clang-format on
static_assert(kNodeTable.lists_each_pair_once());
static_assert(kNodeTable.lists_changes_only());
static_assert(kNodeTable.reaches_every_state_from(NodeState::idle));

}  // namespace

NodeTransition transition(NodeState state, NodeEvent event) { return kNodeTable(state, event); }

bool has_ranks(NodeState state) {
    switch (state) {
        case NodeState::starting:
        case NodeState::running:
        case NodeState::doubting:
        case NodeState::failing:
        case NodeState::orphaned:
        case NodeState::doomed:
            return true;
        case NodeState::idle:
        case NodeState::ending:
        case NodeState::departing:
        case NodeState::awaiting_release:
        case NodeState::left:
            return false;
    }
    return false;
}

}  // namespace autolaunch::launcher
