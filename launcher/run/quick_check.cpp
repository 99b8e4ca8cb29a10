#include "run/quick_check.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::chrono::milliseconds kPause{10};
// For the ports of all nodes, and then for the data.
constexpr std::chrono::milliseconds kDataTime = LinkTrial::kSendTime + std::chrono::seconds(2);

CheckChoice quick_ones() { return {{"gpus", "row_remap", "fabric", "uverbs", "memlock"}, {}}; }

}  // namespace

QuickCheck::QuickCheck(asio::io_context& io, NodeSources sources, std::string address)
    : io_(io), sources_(std::move(sources)), address_(std::move(address)), timer_(io) {}

void QuickCheck::start(const NodeCheckAsk& ask, Done done) {
    ask_ = ask;
    done_ = std::move(done);
    ++number_;
    is_examined_ = has_asked_ = false;
    probe_.reset();
    runner_.reset();
    tried_.reset();
    runner_.emplace(sources_, quick_ones(), kLimit);
    asked_.clear();
    std::vector<RailTarget> targets;
    for (const std::string& neighbour : {ask.next, ask.previous})
        if (!neighbour.empty() &&
            std::find(asked_.begin(), asked_.end(), neighbour) == asked_.end()) {
            asked_.push_back(neighbour);
            targets.push_back(
                {.netdev = {}, .source = {}, .address = neighbour, .name = neighbour});
        }
    if (targets.empty())
        has_asked_ = true;
    else
        probe_.emplace(targets);
    try_link(ask);
    go_on();
}

void QuickCheck::try_link(const NodeCheckAsk& ask) {
    trial_.reset();
    is_trying_ = !ask.next.empty() && !ask.secret.empty() && ask.exchange;
    if (!is_trying_)
        return;
    data_until_ = Deadline::after(kDataTime);
    trial_.emplace(io_, address_, ask.secret);
    ask.exchange(trial_->port(), [this, number = number_, next = ask.next](std::uint16_t port) {
        if (number != number_ || !is_trying_ || !trial_)
            return;
        if (port == 0) {
            is_trying_ = false;
            return;
        }
        trial_->send_to(next, port, [this, number](const LinkTrial::Result& result) {
            if (number != number_)
                return;
            tried_ = result;
            is_trying_ = false;
        });
    });
}

void QuickCheck::go_on() {
    is_examined_ = is_examined_ || runner_->wait(Deadline::after(std::chrono::milliseconds(0)));
    has_asked_ = has_asked_ || probe_->step();
    is_trying_ = is_trying_ && !data_until_.passed();
    if (is_examined_ && has_asked_ && !is_trying_)
        return finish();
    timer_.expires_after(kPause);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            go_on();
    });
}

bool QuickCheck::reached(const std::string& address) const {
    const auto found = std::find(asked_.begin(), asked_.end(), address);
    return found == asked_.end() ||
           probe_->answers()[static_cast<std::size_t>(found - asked_.begin())] != Reach::silent;
}

// What cannot be asked says nothing: a check that did not run is no failure of the node.
void QuickCheck::finish() {
    NodeCheckResult result;
    const NodeReport report = runner_->take(sources_.hostname);
    for (const Finding& finding : report.findings)
        if (finding.severity == Severity::fail)
            result.failures.push_back(finding.check + ": " + finding.what);
    result.reached_next = !probe_ || reached(ask_.next);
    result.reached_previous = !probe_ || reached(ask_.previous);
    if (tried_)
        result.link = control::LinkTried{.bytes = tried_->bytes,
                                         .best_us = tried_->best_us,
                                         .wrong = tried_->wrong,
                                         .problem = tried_->problem};
    runner_.reset();
    probe_.reset();
    std::exchange(done_, {})(std::move(result));
}

}  // namespace autolaunch::launcher
