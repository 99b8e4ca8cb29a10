#include "base/deadline.hpp"
#include "supervise/job_supervisor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

// Between two generations: whether the nodes that stay are fit, and reach each other.

namespace autolaunch::launcher {

namespace {

constexpr auto kCheckTime = std::chrono::seconds(10);

// What a machine may have done. A rank's own error says so, and nobody has to be looked at.
bool may_be_a_machines(Cause cause) {
    return cause == Cause::gpu || cause == Cause::network || cause == Cause::node_lost ||
           cause == Cause::crash || cause == Cause::collective_timeout || cause == Cause::hang ||
           cause == Cause::killed;
}

}  // namespace

// True: end_check() follows, and the wait for the next generation after it.
bool JobSupervisor::begin_check() {
    if (check_ == generation_number_ || !plan_.spec.restart.check_nodes || !ended_by_ ||
        !may_be_a_machines(ended_by_->cause) || members_.size() < 2 ||
        !member_limits(plan_.spec, 1).fewest)
        return false;
    check_ = generation_number_;
    control::CheckNode ask{
        .generation = generation_number_ - 1, .request = check_, .addresses = head_.addresses()};
    ask.addresses.front() = joined_.summary.head_address;
    unchecked_.clear();
    unreached_.clear();
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
        if (const std::string line = members_.leave_out(node, "the check found: " + failure);
            !line.empty())
            report(WarningRaised{line});
    for (const int peer : checked.unreached)
        unreached_.emplace_back(node, peer);
    if (unchecked_.empty())
        end_check();
}

// Of two that do not reach each other the one that others miss, too, is left out; of two that only
// miss each other the one that is not the head's.
void JobSupervisor::end_check() {
    check_timer_.cancel();
    for (const int node : unchecked_)
        if (const std::string line =
                members_.leave_out(node, "it did not answer to the check between generations");
            !line.empty())
            report(WarningRaised{line});
    unchecked_.clear();
    std::map<int, int> missed_by;
    for (const auto& [from, to] : unreached_)
        ++missed_by[to];
    std::sort(unreached_.begin(), unreached_.end(), [&](const auto& a, const auto& b) {
        return missed_by[a.second] > missed_by[b.second];
    });
    for (const auto& [from, to] : unreached_) {
        if (!members_.is_fit(from) || !members_.is_fit(to) || to >= members_.size())
            continue;
        const int out = to == roster_.self ? from : to;
        const std::string why = fmt::format("{} did not reach {} in the check between generations",
                                            name_of(from), name_of(to));
        if (const std::string line = members_.leave_out(out, why); !line.empty())
            report(WarningRaised{line});
    }
    unreached_.clear();
    if (state_ == JobState::waiting)
        wait_to_restart();
}

}  // namespace autolaunch::launcher
