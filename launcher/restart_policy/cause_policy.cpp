#include "restart_policy/cause_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace autolaunch::launcher {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What an operator would choose: a mistake of the program is tried again as often as its owner
// wants and not once more where that cannot help; hardware, links and servers are on nobody's
// account, and get time to recover.
CausePolicy default_of(Cause cause, const RestartSpec& restart) {
    CausePolicy policy;
    policy.cause = cause;
    policy.action = RestartAction::restart;
    policy.delay = restart.backoff;
    const auto on_its_own = [&](int times, seconds delay) {
        policy.counts = false;
        policy.window = WindowLimit{times, hours(6)};
        policy.delay = std::max<milliseconds>(restart.backoff, delay);
        policy.backoff = 2;
    };
    switch (cause) {
        case Cause::program_error:
        case Cause::cannot_start:
        case Cause::crash:
        case Cause::out_of_memory:
        case Cause::mpi_abort:
        case Cause::collective_timeout:
            policy.stops_alike = true;
            break;
        case Cause::killed:
            break;
        case Cause::storage:
        case Cause::gpu:
            on_its_own(3, seconds(10));
            break;
        case Cause::hang:  // a link, a server or a mistake: the same one twice is a mistake
            on_its_own(3, seconds(0));
            policy.backoff = 1;
            policy.stops_alike = true;
            break;
        case Cause::straggler:  // no failure: nobody pays for it, and each has a node less after it
            on_its_own(3, seconds(0));
            policy.backoff = 1;
            policy.elsewhere = true;
            if (restart.straggler != kReplaceStragglers)
                policy.action = RestartAction::stop;  // it never comes to that
            break;
        case Cause::network:
            on_its_own(5, seconds(5));
            break;
        case Cause::node_lost:
        case Cause::preempted:
        case Cause::time_limit:
        case Cause::cancelled:  // where nobody says so, a preemption may have
            policy.action = RestartAction::requeue;
            policy.counts = false;
            break;
        case Cause::agent_killed:
        case Cause::internal:
            policy.action = RestartAction::stop;
            break;
    }
    return policy;
}

// torchrun's: so many restarts in all, and nothing that asks why.
void make_alike(CausePolicy& policy, const RestartSpec& restart) {
    if (policy.action != RestartAction::restart || policy.cause == Cause::straggler)
        return;
    policy.counts = true;
    policy.window.reset();
    policy.delay = restart.backoff;
    policy.backoff = 1;
    policy.stops_alike = false;
}

void apply(const CauseRules& rules, CausePolicy& policy) {
    if (rules.action)
        policy.action = *rules.action;
    policy.elsewhere = policy.elsewhere || rules.elsewhere;
    if (rules.budget || rules.window) {
        policy.counts = false;
        policy.budget = rules.budget;
        policy.window = rules.window;
    }
    policy.delay = rules.delay.value_or(policy.delay);
    policy.backoff = rules.backoff.value_or(policy.backoff);
}

constexpr char kElsewhere[] = "without the node where it ended";

std::string duration(milliseconds time) {
    if (time.count() % 3'600'000 == 0)
        return fmt::format("{} h", time.count() / 3'600'000);
    if (time.count() % 60'000 == 0)
        return fmt::format("{} min", time.count() / 60'000);
    return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

std::string limits(const CausePolicy& policy, const RestartSpec& restart) {
    if (policy.action == RestartAction::stop)
        return {};
    if (policy.counts)
        return fmt::format("{} in all", restart.max_restarts);
    std::string text;
    if (policy.budget)
        text = fmt::format("{} of its own", *policy.budget);
    if (policy.window)
        text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", policy.window->times,
                            duration(policy.window->within));
    return text.empty() ? "no limit" : text;
}

std::string pause(const CausePolicy& policy) {
    if (policy.action != RestartAction::restart || policy.delay.count() == 0)
        return {};
    const std::string text = "after " + duration(policy.delay);
    return policy.backoff > 1 ? text + fmt::format(", then x {}", policy.backoff) : text;
}

}  // namespace

std::string_view name_of(RestartAction action) {
    constexpr std::array<std::string_view, 3> kNames = {"restart", "requeue", "stop"};
    return kNames[static_cast<std::size_t>(action)];
}

bool wants_restarts(const RestartSpec& restart) {
    return restart.max_restarts > 0 || !restart.on.empty();
}

std::vector<CausePolicy> restart_policy(const RestartSpec& restart) {
    std::vector<CausePolicy> policies;
    for (const Cause cause : all_causes()) {
        CausePolicy policy = default_of(cause, restart);
        if (restart.as_torchrun)
            make_alike(policy, restart);
        if (const auto rules = restart.on.find(cause); rules != restart.on.end())
            apply(rules->second, policy);
        const bool is_failure = cause != Cause::straggler;
        if (policy.action == RestartAction::restart && is_failure && !wants_restarts(restart))
            policy.action = RestartAction::stop;
        policies.push_back(policy);
    }
    return policies;
}

std::string policy_table(const RestartSpec& restart) {
    if (!wants_restarts(restart))
        return "  a failure ends the job: restart.max_restarts is 0, and restart.on is empty\n";
    struct Row {
        std::string action, limits, pause, causes, note;
    };
    std::vector<Row> rows;
    for (const CausePolicy& policy : restart_policy(restart)) {
        if (policy.cause == Cause::straggler)
            continue;  // no failure: describe_straggler_policy()
        std::string note = policy.action == RestartAction::restart && policy.stops_alike
                               ? "once where it fails before its first step; not after the same "
                                 "error at the same step"
                               : "";
        if (policy.action == RestartAction::requeue)
            note = policy.cause == Cause::cancelled
                       ? "exits with 75 where it may be a preemption's, from a checkpoint"
                   : policy.cause == Cause::node_lost || policy.cause == Cause::preempted ||
                           policy.cause == Cause::time_limit
                       ? "exits with 75, from a checkpoint"
                       : "exits with 75";
        if (policy.action == RestartAction::restart && policy.elsewhere)
            note = note.empty() ? kElsewhere : note + " · " + kElsewhere;
        Row row{std::string(name_of(policy.action)), limits(policy, restart), pause(policy),
                std::string(name_of(policy.cause)), std::move(note)};
        const auto alike = std::find_if(rows.begin(), rows.end(), [&](const Row& known) {
            return known.action == row.action && known.limits == row.limits &&
                   known.pause == row.pause && known.note == row.note;
        });
        if (alike == rows.end())
            rows.push_back(std::move(row));
        else
            alike->causes += ", " + row.causes;
    }
    std::string text;
    for (const Row& row : rows) {
        text += fmt::format("  {:<8} {}", row.action, row.causes);
        for (const auto* part : {&row.limits, &row.pause, &row.note})
            if (!part->empty())
                text += " · " + *part;
        text += '\n';
    }
    if (restart.as_torchrun)
        text += "  --max-restarts is torchrun's: so many in all, whatever the cause\n";
    return text;
}

}  // namespace autolaunch::launcher
