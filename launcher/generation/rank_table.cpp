#include "generation/rank_table.hpp"

namespace autolaunch::launcher {

namespace {

// clang-format off
constexpr auto kRankTable = [] {
    using S = RankState;
    using E = RankEvent;
    using A = RankAction;
    return TransitionTable<S, kRankStates, E, kRankEvents, A>({
        {S::planned,     E::started,              A::none,              S::running},
        {S::planned,     E::start_failed,         A::none,              S::ended},
        {S::planned,     E::user_stop,            A::none,              S::ended},
        {S::planned,     E::user_interrupt,       A::none,              S::ended},
        {S::planned,     E::peer_failed,          A::none,              S::ended},
        {S::planned,     E::kill,                 A::none,              S::ended},

        {S::running,     E::declared_cooperative, A::none,              S::cooperative},
        {S::running,     E::user_stop,            A::send_term,         S::stopping},
        {S::running,     E::user_interrupt,       A::send_stop_signal,  S::interrupted},
        {S::running,     E::peer_failed,          A::send_term,         S::stopping},
        {S::running,     E::leave,                A::send_leave_message, S::leaving},
        {S::running,     E::kill,                 A::send_kill,         S::killed},
        {S::running,     E::exited,               A::none,              S::ended},

        {S::cooperative, E::user_stop,            A::send_stop_message, S::finishing},
        {S::cooperative, E::user_interrupt,       A::send_stop_message, S::finishing},
        {S::cooperative, E::peer_failed,          A::send_term,         S::stopping},
        {S::cooperative, E::leave,                A::send_leave_message, S::leaving},
        {S::cooperative, E::kill,                 A::send_kill,         S::killed},
        {S::cooperative, E::exited,               A::none,              S::ended},

        // It ends when it has saved: no signal hurries it before its time is over, but one that it
        // is known to save on, where it seems not to look.
        {S::finishing,   E::heard_stop,           A::none,              S::saving},
        {S::finishing,   E::no_answer,            A::send_stop_signal,  S::interrupted},
        {S::finishing,   E::peer_failed,          A::send_term,         S::stopping},
        {S::finishing,   E::kill,                 A::send_kill,         S::killed},
        {S::finishing,   E::exited,               A::none,              S::ended},

        {S::saving,      E::peer_failed,          A::send_term,         S::stopping},
        {S::saving,      E::kill,                 A::send_kill,         S::killed},
        {S::saving,      E::exited,               A::none,              S::ended},

        {S::interrupted, E::insist,               A::send_term,         S::stopping},
        {S::interrupted, E::peer_failed,          A::send_term,         S::stopping},
        {S::interrupted, E::kill,                 A::send_kill,         S::killed},
        {S::interrupted, E::exited,               A::none,              S::ended},

        // One that does not leave in its time is started anew, as one that cannot.
        {S::leaving,     E::has_left,             A::none,              S::left},
        {S::leaving,     E::insist,               A::send_term,         S::stopping},
        {S::leaving,     E::peer_failed,          A::send_term,         S::stopping},
        {S::leaving,     E::kill,                 A::send_kill,         S::killed},
        {S::leaving,     E::exited,               A::none,              S::ended},

        // Of no generation: nothing that ends one concerns it. Its owner ends it where none follows.
        {S::left,        E::rejoined,             A::none,              S::running},
        {S::left,        E::exited,               A::none,              S::ended},

        {S::stopping,    E::kill,                 A::send_kill,         S::killed},
        {S::stopping,    E::exited,               A::none,              S::ended},

        {S::killed,      E::exited,               A::none,              S::ended},
    });
}();
// clang-format on
static_assert(kRankTable.lists_each_pair_once());
static_assert(kRankTable.lists_changes_only());
static_assert(kRankTable.reaches_every_state_from(RankState::planned));

}  // namespace

RankTransition transition(RankState state, RankEvent event) { return kRankTable(state, event); }

}  // namespace autolaunch::launcher
