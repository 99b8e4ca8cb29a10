#include "restart_policy/decision.hpp"

#include "causes/rank_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace autolaunch::launcher {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestDelay = std::chrono::minutes(30);
// A job that went on so long without the cause, its longest pause included, has got over it: the
// next pause is the first again.
constexpr milliseconds kCalm = 2 * kLongestDelay;

bool went_on(const PastEnd& end) { return end.action != RestartAction::stop; }

// Restarts and requeues that the history has of this policy's account.
struct Account {
    int used = 0, of_window = 0;
};

Account account_of(const CausePolicy& policy, const RestartHistory& history,
                   std::chrono::system_clock::time_point now) {
    Account account;
    for (const PastEnd& end : history.ends) {
        if (!went_on(end))
            continue;
        const bool is_its_cause = end.cause == policy.cause;
        if (policy.counts ? !end.counted : !is_its_cause)
            continue;
        ++account.used;
        if (policy.window && now - end.at < policy.window->within)
            ++account.of_window;
    }
    return account;
}

// How many of this cause came before, each not long after the one before it.
int in_a_row(Cause cause, const RestartHistory& history,
             std::chrono::system_clock::time_point now) {
    int count = 0;
    for (auto end = history.ends.rbegin(); end != history.ends.rend(); ++end) {
        if (end->cause != cause || !went_on(*end))
            continue;
        if (now - end->at >= kCalm)
            break;
        now = end->at;
        ++count;
    }
    return count;
}

milliseconds pause(const CausePolicy& policy, const RestartHistory& history,
                   const Situation& situation) {
    // Room is looked for: there is no need to guess when it may be there.
    if (situation.record.vain == kNoRoom)
        return policy.delay;
    const double delay = static_cast<double>(policy.delay.count()) *
                         std::pow(policy.backoff, in_a_row(policy.cause, history, situation.now));
    return milliseconds(
        static_cast<std::int64_t>(std::min(delay, static_cast<double>(kLongestDelay.count()))));
}

// Somebody may make room meanwhile, and whoever gives storage a rule of its own says how long he
// waits for that.
bool may_get_room(const RestartSpec& restart, const EndRecord& record) {
    return record.vain == kNoRoom && restart.on.contains(Cause::storage);
}

// Why another try cannot help; empty: it may.
std::string why_in_vain(const CausePolicy& policy, const RestartSpec& restart,
                        const RestartHistory& history, const Situation& situation,
                        const PastEnd& now) {
    if (!situation.record.vain.empty() && !may_get_room(restart, situation.record))
        return situation.record.vain;
    if (situation.input_spent)
        return "more came in on stdin through a pipe than is kept; give a file, < FILE";
    if (!policy.stops_alike || history.ends.empty())
        return {};
    const PastEnd& before = history.ends.back();
    if (now.step && before.step == now.step && before.signature == now.signature)
        return fmt::format("failed at step {} with the same error as before: a restart cannot help",
                           *now.step);
    if (!now.made_progress && !before.made_progress && went_on(before))
        return "failed before its first step, as the time before: a restart cannot help";
    return {};
}

std::string hours_of(milliseconds time) {
    return fmt::format("{:g} h", static_cast<double>(time.count()) / 3'600'000);
}

// Why its account is used up; empty: it is not.
std::string why_used_up(const CausePolicy& policy, const RestartSpec& restart,
                        const Account& account) {
    const auto name = name_of(policy.cause);
    if (policy.counts && account.used >= restart.max_restarts)
        return restart.max_restarts == 0
                   ? fmt::format("restart.max_restarts is 0, and restart.on gives {} no budget",
                                 name)
                   : fmt::format("all {} restarts are used up", restart.max_restarts);
    if (!policy.counts && policy.budget && account.used >= *policy.budget)
        return fmt::format("the {} restarts for {} are used up", *policy.budget, name);
    if (!policy.counts && policy.window && account.of_window >= policy.window->times)
        return fmt::format("{} restarts for {} in {} are used up", policy.window->times, name,
                           hours_of(policy.window->within));
    return {};
}

std::string describe(const CausePolicy& policy, const RestartSpec& restart,
                     const Account& account) {
    if (policy.counts)
        return fmt::format("{} of {}", account.used + 1, restart.max_restarts);
    std::string text = fmt::format("for {}", name_of(policy.cause));
    if (policy.budget)
        text += fmt::format(", {} of {}", account.used + 1, *policy.budget);
    if (policy.window)
        text += fmt::format(", {} of {} in {}", account.of_window + 1, policy.window->times,
                            hours_of(policy.window->within));
    return text;
}

bool made_progress(const Situation& situation, const RestartHistory& history) {
    if (situation.step || situation.has_saved)
        return true;
    const bool reports_steps = std::any_of(history.ends.begin(), history.ends.end(),
                                           [](const PastEnd& end) { return end.step.has_value(); });
    return !reports_steps && situation.ran >= kProgressByTime;
}

// torchrun's number is of all restarts, also of those that restart.on has a budget for.
bool over_torchruns(const RestartSpec& restart, const RestartHistory& history) {
    return restart.as_torchrun &&
           std::count_if(history.ends.begin(), history.ends.end(), [](const PastEnd& end) {
               return end.action == RestartAction::restart && end.cause != Cause::straggler;
           }) >= restart.max_restarts;
}

bool has_action_for(const RestartSpec& restart, Cause cause) {
    const auto rules = restart.on.find(cause);
    return rules != restart.on.end() && rules->second.action;
}

// Who says with how few nodes a job may go on wants it to: it is nobody's restart.
CausePolicy go_on_without(Cause cause) {
    CausePolicy policy;
    policy.cause = cause;
    policy.action = RestartAction::restart;
    policy.counts = false;
    return policy;
}

}  // namespace

Decision decide(const RestartSpec& restart, const RestartHistory& history,
                const Situation& situation) {
    CausePolicy policy = restart_policy(restart)[static_cast<std::size_t>(situation.record.cause)];
    const bool goes_on = situation.enough_nodes && !has_action_for(restart, policy.cause);
    if (goes_on)
        policy = go_on_without(policy.cause);
    Decision decision;
    decision.end = {.generation = situation.generation,
                    .at = situation.now,
                    .cause = policy.cause,
                    .node = situation.record.node,
                    .signature = error_signature(situation.record),
                    .step = situation.step,
                    .made_progress = made_progress(situation, history)};
    const bool wanted = wants_restarts(restart);
    const Account account = account_of(policy, history, situation.now);
    if (policy.action == RestartAction::stop)
        decision.why = wanted ? fmt::format("{} stops the job", name_of(policy.cause)) : "";
    else if (policy.action == RestartAction::restart)
        decision.why = policy.elsewhere && !situation.others_suffice
                           ? "no other node is there to restart on"
                           : why_in_vain(policy, restart, history, situation, decision.end);
    else
        decision.why = situation.record.no_requeue;
    if (decision.why.empty() && policy.action != RestartAction::stop)
        decision.why = why_used_up(policy, restart, account);
    if (decision.why.empty() && policy.action == RestartAction::restart && !goes_on &&
        policy.cause != Cause::straggler && over_torchruns(restart, history))
        decision.why = fmt::format("all {} restarts are used up", restart.max_restarts);
    if (!decision.why.empty() || policy.action == RestartAction::stop)
        return decision;
    decision.action = decision.end.action = policy.action;
    decision.end.elsewhere = policy.elsewhere;
    decision.counted = decision.end.counted =
        policy.counts && policy.action == RestartAction::restart;
    decision.account = describe(policy, restart, account);
    decision.delay = pause(policy, history, situation);
    return decision;
}

}  // namespace autolaunch::launcher
