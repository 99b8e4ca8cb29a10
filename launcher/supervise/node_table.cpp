#include "supervise/node_table.hpp"

namespace autolaunch::launcher {

namespace {

struct NodeTable {
    using S = NodeState;
    using A = NodeAction;

    // clang-format off
    static constexpr NodeTransition kRows[kNodeStates][kNodeEvents] = {
    // start, stop_by_user, stop_failed,
    // kill, finish, head_lost,
    // keeper_gone, ranks_ended,
    // grace_over, hung
    /* idle */
    {{S::running, A::start_ranks},       {S::idle, A::none},                 {S::idle, A::none},
     {S::idle, A::none},                 {S::left, A::leave},                {S::left, A::leave},
     {S::doomed, A::await_release},      {S::idle, A::none},
     {S::idle, A::none},                 {S::idle, A::none}},
    /* running: a Finish comes early only when the head gave up on ranks that hang */
    {{S::running, A::none},              {S::running, A::ask_ranks_to_stop}, {S::running, A::terminate_ranks},
     {S::running, A::kill_ranks},        {S::left, A::leave},                {S::orphaned, A::orphan_ranks},
     {S::doomed, A::kill_ranks},         {S::idle, A::tell_ended},
     {S::running, A::none},              {S::running, A::name_hung}},
    /* orphaned: no command can come */
    {{S::orphaned, A::none},             {S::orphaned, A::none},             {S::orphaned, A::none},
     {S::orphaned, A::none},             {S::orphaned, A::none},             {S::orphaned, A::none},
     {S::orphaned, A::kill_ranks},       {S::left, A::leave},
     {S::orphaned, A::kill_ranks},       {S::left, A::leave}},
    /* doomed: a generation that the head still asks for ends before it begins */
    {{S::doomed, A::tell_ended},         {S::doomed, A::none},               {S::doomed, A::none},
     {S::doomed, A::none},               {S::left, A::leave},                {S::orphaned, A::kill_ranks},
     {S::doomed, A::none},               {S::doomed, A::tell_ended},
     {S::doomed, A::none},               {S::left, A::leave}},
    /* left */
    {{S::left, A::none},                 {S::left, A::none},                 {S::left, A::none},
     {S::left, A::none},                 {S::left, A::none},                 {S::left, A::none},
     {S::left, A::none},                 {S::left, A::none},
     {S::left, A::none},                 {S::left, A::none}},
};
    // clang-format on
};

}  // namespace

NodeTransition transition(NodeState state, NodeEvent event) {
    return NodeTable::kRows[static_cast<int>(state)][static_cast<int>(event)];
}

}  // namespace autolaunch::launcher
