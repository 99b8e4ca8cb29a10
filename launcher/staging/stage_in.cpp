#include "staging/stage_in.hpp"

#include "exit_codes/exit_error.hpp"

#include <fmt/format.h>
#include <asio/post.hpp>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kSilence = std::chrono::seconds(15);  // of the stager, which speaks once a second
constexpr auto kBetweenLines = std::chrono::seconds(5);

StagerOrder order_of(const LaunchPlan& plan) {
    const StorageSpec& storage = plan.spec.storage;
    StagerOrder order{.scratch = plan.staging.scratch,
                      .most_bytes = storage.limit_bytes.value_or(0),
                      .bytes_per_second = storage.throttle_bytes.value_or(0),
                      .timeout = storage.timeout,
                      .items = {}};
    for (const StagedItem& item : plan.staging.items)
        order.items.push_back({item.name, item.from, item.verify});
    return order;
}

}  // namespace

StageIn::StageIn(asio::io_context& io, const LaunchPlan& plan)
    : io_(io), plan_(plan), shown_at_(std::chrono::steady_clock::now()) {}

StageIn::~StageIn() = default;

bool StageIn::is_settled(std::function<void()> then) {
    if (plan_.staging.items.empty())
        return true;
    if (state_ == State::idle)
        begin();
    if (failure_)
        throw ExitError(failure_->exit_code, ErrorCode::invalid_argument, failure_->what,
                        failure_->hint);
    if (state_ == State::settled)
        return true;
    then_ = std::move(then);
    return false;
}

void StageIn::begin() {
    state_ = State::waiting;
    shown_at_ = std::chrono::steady_clock::now();
    try {
        stager_.emplace(
            io_, kSilence,
            MoverProcess::Handlers{[this](const std::string& line) { hear(line); },
                                   [this](const std::string& why) {
                                       fail({exit_code::kUnavailable, "storage.stage_in: " + why,
                                             "what it was copying from may not answer any more"});
                                   }},
            MoverProcess::Program{.name = "autolaunch-stager"});
        ++started_;
        stager_->send(as_line(order_of(plan_)));
    } catch (const Error& error) {
        fail({exit_code_of(error), std::string("storage.stage_in: ") + error.what(), error.hint()});
    }
}

void StageIn::hear(const std::string& line) {
    if (state_ != State::waiting)
        return;
    try {
        const StagerWord word = parse_word(line);
        for (const std::string& note : word.notes)
            report_(WarningRaised{"storage.stage_in: " + note});
        for (const StagingProgress& progress : word.progress)
            show(progress);
        for (const StagedData& data : word.staged)
            take(data);
        for (const StagingFailure& failure : word.failed)
            fail(failure);
        if (word.done)
            settle();
    } catch (const Error& error) {
        fail({exit_code_of(error), std::string("storage.stage_in: ") + error.what(), error.hint()});
    }
}

// The stager holds it until we do.
void StageIn::take(const StagedData& data) {
    StageCache cache(plan_.staging.scratch, plan_.spec.storage.limit_bytes.value_or(0));
    auto held = cache.hold(data.entry);
    if (!held)
        return fail({exit_code::kCannotCreate,
                     "storage.stage_in: " + data.path + " was removed again",
                     "somebody removes what is in storage.scratch while jobs use it"});
    held_[data.name] = std::move(*held);
    report_(DataStaged{.name = data.name,
                       .path = data.path,
                       .bytes = data.bytes,
                       .files = data.files,
                       .read_bytes = data.read_bytes,
                       .was_here = data.was_here,
                       .took = data.took});
}

void StageIn::show(const StagingProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_at_ < kBetweenLines)
        return;
    shown_at_ = now;
    report_(DataStaging{.name = progress.name, .bytes = progress.bytes, .of = progress.of});
}

void StageIn::fail(StagingFailure failure) {
    if (!failure_)
        failure_ = std::move(failure);
    settle();
}

void StageIn::settle() {
    if (stager_)
        stager_->expect_nothing();
    const bool was_waiting = std::exchange(state_, State::settled) == State::waiting;
    if (!was_waiting)
        return;
    // Not from within a handler of the stager, which is not destroyed before its time.
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
        if (alive.expired())
            return;
        stager_.reset();
        if (const auto then = std::exchange(then_, nullptr))
            then();
    });
}

void StageIn::give(std::vector<std::string>& environment) const {
    for (const StagedItem& item : plan_.staging.items) {
        const auto held = held_.find(item.name);
        if (held == held_.end() || plan_.spec.trainer.env.contains(item.variable))
            continue;
        std::erase_if(environment, [&](const std::string& line) {
            return line.starts_with(item.variable + '=');
        });
        environment.push_back(item.variable + '=' + held->second.path.string());
    }
}

}  // namespace autolaunch::launcher
