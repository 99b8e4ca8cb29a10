#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "supervise/job_supervisor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

// Between two generations: whether the nodes that stay are fit, and reach each other.

namespace autolaunch::launcher {

namespace {

constexpr auto kCheckTime = std::chrono::seconds(10);
constexpr std::size_t kCheckSecretBytes = 16;

// What a machine may have done. A rank's own error says so, and nobody has to be looked at.
bool may_be_a_machines(Cause cause) {
    return cause == Cause::gpu || cause == Cause::network || cause == Cause::node_lost ||
           cause == Cause::crash || cause == Cause::collective_timeout || cause == Cause::hang ||
           cause == Cause::killed;
}

}  // namespace

// It is kept over requeues, too: the scheduler is not to give the job such a node again.
void JobSupervisor::found_unfit(int node, const std::string& why) {
    if (const std::string line = members_.leave_out(node, why); !line.empty())
        report(WarningRaised{line});
    keep(restart_book_.note_unfit({{name_of(node), why}}));
}

// What the preflight found, and what is kept of earlier generations and starts.
void JobSupervisor::begin_without_unfit(const std::map<std::string, std::string>& found) {
    const auto known = restart_book_.unfit_nodes();
    for (std::string& line : members_.leave_out(found))
        report(WarningRaised{std::move(line)});
    keep(restart_book_.note_unfit(found));
    for (const auto& [name, why] : known) {
        const auto lines = members_.leave_out({{name, why}});
        if (lines.empty() && members_.present(name))
            continue;  // every node is needed
        report(WarningRaised{fmt::format(
            "{} · to take it back: autolaunch drain {} --take-back --job {}",
            lines.empty() ? name + " is left out since an earlier start: " + why : lines.front(),
            name, plan_.run_dir)});
    }
}

// True: end_check() follows, and the wait for the next generation after it.
bool JobSupervisor::begin_check() {
    if (check_ == generation_number_ || !plan_.spec.restart.check_nodes || !ended_by_ ||
        !may_be_a_machines(ended_by_->cause) || members_.size() < 2 ||
        !member_limits(plan_.spec, 1).fewest)
        return false;
    check_ = generation_number_;
    control::CheckNode ask{.generation = generation_number_ - 1,
                           .request = check_,
                           .addresses = head_.addresses(),
                           .secret = random_hex(kCheckSecretBytes)};
    ask.addresses.front() = joined_.summary.head_address;
    unchecked_.clear();
    links_.clear();
    for (int node = 0; node < members_.size(); ++node) {
        if (members_.is_fit(node))
            unchecked_.insert(node);
        else
            ask.addresses[static_cast<std::size_t>(node)].clear();
    }
    head_.command(ask);
    check_timer_.expires_after(kCheckTime);
    check_timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            end_check();
    });
    return true;
}

void JobSupervisor::on(int node, control::NodeChecked&& checked) {
    if (checked.request != check_ || unchecked_.erase(node) == 0)
        return;
    for (const std::string& failure : checked.failures)
        found_unfit(node, "the check found: " + failure);
    for (const int peer : checked.unreached)
        links_.push_back({.from = node, .to = peer, .reached = false});
    for (control::LinkTried& link : checked.links)
        links_.push_back({.from = node,
                          .to = link.peer,
                          .bytes = link.bytes,
                          .best_us = link.best_us,
                          .wrong = link.wrong,
                          .problem = std::move(link.problem)});
    if (unchecked_.empty())
        end_check();
}

// What follows of the links, judge_links() says.
void JobSupervisor::end_check() {
    check_timer_.cancel();
    for (const int node : std::exchange(unchecked_, {}))
        found_unfit(node, "it did not answer to the check between generations");
    std::vector<LinkSeen> links;
    for (LinkSeen& link : std::exchange(links_, {}))
        if (link.to >= 0 && link.to < members_.size() && members_.is_fit(link.from) &&
            members_.is_fit(link.to))
            links.push_back(std::move(link));
    const LinkVerdict verdict = judge_links(
        links, roster_.self, [this](int node) { return members_.takes_part(node); },
        [this](int node) { return name_of(node); });
    for (const auto& [node, why] : verdict.out)
        found_unfit(node, "the check between generations: " + why);
    for (const std::string& line : verdict.lines)
        report(WarningRaised{"the check between generations: " + line});
    if (state_ == JobState::waiting)
        wait_to_restart();
}

}  // namespace autolaunch::launcher
