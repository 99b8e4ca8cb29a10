#include "supervise/job_table.hpp"

namespace autolaunch::launcher {

namespace {

struct JobTable {
    using S = JobState;
    using A = JobAction;

    // clang-format off
    static constexpr JobTransition kRows[kJobStates][kJobEvents] = {
    // started, rank_failed, rank_failed_for_good,
    // stop_asked, stop_asked_again, keeper_gone,
    // grace_over, all_ended, wait_over,
    // node_lost
    /* starting */
    {{S::running, A::none},                 {S::restarting, A::terminate_ranks}, {S::failing, A::terminate_ranks},
     {S::stopping, A::ask_ranks_to_stop},   {S::stopping, A::kill_ranks},        {S::stopping, A::kill_ranks},
     {S::starting, A::none},                {S::finished, A::finish},            {S::starting, A::none},
     {S::failing, A::terminate_ranks}},
    /* running */
    {{S::running, A::none},                 {S::restarting, A::terminate_ranks}, {S::failing, A::terminate_ranks},
     {S::stopping, A::ask_ranks_to_stop},   {S::stopping, A::kill_ranks},        {S::stopping, A::kill_ranks},
     {S::running, A::none},                 {S::finished, A::finish},            {S::running, A::none},
     {S::failing, A::terminate_ranks}},
    /* stopping */
    {{S::stopping, A::none},                {S::stopping, A::none},              {S::stopping, A::none},
     {S::stopping, A::none},                {S::stopping, A::kill_ranks},        {S::stopping, A::kill_ranks},
     {S::stopping, A::kill_ranks},          {S::finished, A::finish},            {S::stopping, A::none},
     {S::stopping, A::none}},
    /* restarting: the ranks have their SIGTERM; a stop only cancels what was to follow */
    {{S::restarting, A::none},              {S::restarting, A::none},            {S::failing, A::none},
     {S::stopping, A::none},                {S::stopping, A::kill_ranks},        {S::stopping, A::kill_ranks},
     {S::restarting, A::kill_ranks},        {S::waiting, A::wait_to_restart},    {S::restarting, A::none},
     {S::failing, A::none}},
    /* failing: a stop changes nothing, the failure came first */
    {{S::failing, A::none},                 {S::failing, A::none},               {S::failing, A::none},
     {S::failing, A::none},                 {S::failing, A::kill_ranks},         {S::failing, A::kill_ranks},
     {S::failing, A::kill_ranks},           {S::finished, A::finish},            {S::failing, A::none},
     {S::failing, A::none}},
    /* waiting: no rank is there */
    {{S::waiting, A::none},                 {S::waiting, A::none},               {S::waiting, A::none},
     {S::finished, A::finish},              {S::finished, A::finish},            {S::finished, A::finish},
     {S::waiting, A::none},                 {S::waiting, A::none},               {S::starting, A::start_generation},
     {S::finished, A::finish}},
    /* finished */
    {{S::finished, A::none},                {S::finished, A::none},              {S::finished, A::none},
     {S::finished, A::none},                {S::finished, A::none},              {S::finished, A::none},
     {S::finished, A::none},                {S::finished, A::none},              {S::finished, A::none},
     {S::finished, A::none}},
};
    // clang-format on
};

}  // namespace

JobTransition transition(JobState state, JobEvent event) {
    return JobTable::kRows[static_cast<int>(state)][static_cast<int>(event)];
}

}  // namespace autolaunch::launcher
