#include "supervise/rank_table.hpp"

namespace autolaunch::launcher {

namespace {

struct RankTable {
    using S = RankState;
    using A = RankAction;

    // Columns: started, start_failed, declared_cooperative, user_stop, peer_failed, kill, exited.
    // clang-format off
    static constexpr RankTransition kRows[kRankStates][kRankEvents] = {
    /* planned */     {{S::running, A::none},     {S::ended, A::none},       {S::planned, A::none},
                       {S::ended, A::none},       {S::ended, A::none},       {S::ended, A::none},     {S::planned, A::none}},
    /* running */     {{S::running, A::none},     {S::running, A::none},     {S::cooperative, A::none},
                       {S::stopping, A::send_term}, {S::stopping, A::send_term}, {S::killed, A::send_kill}, {S::ended, A::none}},
    /* cooperative */ {{S::cooperative, A::none}, {S::cooperative, A::none}, {S::cooperative, A::none},
                       {S::finishing, A::send_stop_message}, {S::stopping, A::send_term}, {S::killed, A::send_kill}, {S::ended, A::none}},
    /* finishing */   {{S::finishing, A::none},   {S::finishing, A::none},   {S::finishing, A::none},
                       {S::finishing, A::none},   {S::stopping, A::send_term}, {S::killed, A::send_kill}, {S::ended, A::none}},
    /* stopping */    {{S::stopping, A::none},    {S::stopping, A::none},    {S::stopping, A::none},
                       {S::stopping, A::none},    {S::stopping, A::none},    {S::killed, A::send_kill}, {S::ended, A::none}},
    /* killed */      {{S::killed, A::none},      {S::killed, A::none},      {S::killed, A::none},
                       {S::killed, A::none},      {S::killed, A::none},      {S::killed, A::none},    {S::ended, A::none}},
    /* ended */       {{S::ended, A::none},       {S::ended, A::none},       {S::ended, A::none},
                       {S::ended, A::none},       {S::ended, A::none},       {S::ended, A::none},     {S::ended, A::none}},
};
    // clang-format on
};

}  // namespace

RankTransition transition(RankState state, RankEvent event) {
    return RankTable::kRows[static_cast<int>(state)][static_cast<int>(event)];
}

}  // namespace autolaunch::launcher
