#include "run/quick_check.hpp"

#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::chrono::milliseconds kPause{10};

CheckChoice quick_ones() { return {{"gpus", "row_remap", "fabric", "uverbs", "memlock"}, {}}; }

}  // namespace

QuickCheck::QuickCheck(asio::io_context& io, NodeSources sources)
    : sources_(std::move(sources)), timer_(io) {}

void QuickCheck::start(const std::string& address, Done done) {
    done_ = std::move(done);
    is_examined_ = has_asked_ = false;
    probe_.reset();
    runner_.reset();
    runner_.emplace(sources_, quick_ones(), kLimit);
    if (address.empty())
        has_asked_ = true;
    else
        probe_.emplace(std::vector<RailTarget>{
            {.netdev = {}, .source = {}, .address = address, .name = address}});
    go_on();
}

void QuickCheck::go_on() {
    is_examined_ = is_examined_ || runner_->wait(Deadline::after(std::chrono::milliseconds(0)));
    has_asked_ = has_asked_ || probe_->step();
    if (is_examined_ && has_asked_)
        return finish();
    timer_.expires_after(kPause);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            go_on();
    });
}

// What cannot be asked says nothing: a check that did not run is no failure of the node.
void QuickCheck::finish() {
    std::vector<std::string> failures;
    const NodeReport report = runner_->take(sources_.hostname);
    for (const Finding& finding : report.findings)
        if (finding.severity == Severity::fail)
            failures.push_back(finding.check + ": " + finding.what);
    const bool reached = !probe_ || probe_->answers().front() != Reach::silent;
    runner_.reset();
    probe_.reset();
    std::exchange(done_, {})(std::move(failures), reached);
}

}  // namespace autolaunch::launcher
