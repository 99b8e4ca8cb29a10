#include "supervise/node_table.hpp"

namespace autolaunch::launcher {

namespace {

using S = NodeState;
using E = NodeEvent;
using A = NodeAction;

// clang-format off
constexpr TransitionTable<S, kNodeStates, E, kNodeEvents, A> kTable({
    {S::idle,     E::start,        A::start_ranks,       S::running},
    {S::idle,     E::finish,       A::leave,             S::left},
    {S::idle,     E::head_lost,    A::leave,             S::left},
    {S::idle,     E::keeper_gone,  A::await_release,     S::doomed},

    // A Finish comes early only when the head gave up on ranks that hang.
    {S::running,  E::stop_by_user, A::ask_ranks_to_stop, S::running},
    {S::running,  E::stop_failed,  A::terminate_ranks,   S::running},
    {S::running,  E::kill,         A::kill_ranks,        S::running},
    {S::running,  E::finish,       A::leave,             S::left},
    {S::running,  E::head_lost,    A::orphan_ranks,      S::orphaned},
    {S::running,  E::keeper_gone,  A::kill_ranks,        S::doomed},
    {S::running,  E::ranks_ended,  A::tell_ended,        S::idle},
    {S::running,  E::hung,         A::name_hung,         S::running},

    // No command can come.
    {S::orphaned, E::keeper_gone,  A::kill_ranks,        S::orphaned},
    {S::orphaned, E::ranks_ended,  A::leave,             S::left},
    {S::orphaned, E::grace_over,   A::kill_ranks,        S::orphaned},
    {S::orphaned, E::hung,         A::leave,             S::left},

    // A generation that the head still asks for ends before it begins.
    {S::doomed,   E::start,        A::tell_ended,        S::doomed},
    {S::doomed,   E::finish,       A::leave,             S::left},
    {S::doomed,   E::head_lost,    A::kill_ranks,        S::orphaned},
    {S::doomed,   E::ranks_ended,  A::tell_ended,        S::doomed},
    {S::doomed,   E::hung,         A::leave,             S::left},
});
// clang-format on
static_assert(kTable.lists_each_pair_once());
static_assert(kTable.lists_changes_only());
static_assert(kTable.reaches_every_state_from(S::idle));

}  // namespace

NodeTransition transition(NodeState state, NodeEvent event) { return kTable(state, event); }

}  // namespace autolaunch::launcher
