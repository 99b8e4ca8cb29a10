#include "staging/stager/watch.hpp"

#include "exit_codes/exit_codes.hpp"
#include "staging/stager/agent_line.hpp"

#include <fmt/format.h>

#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr auto kStandstill = std::chrono::seconds(60);  // nothing comes
constexpr auto kRemoteStandstill = std::chrono::seconds(90);
constexpr auto kStill = std::chrono::seconds(5);  // of what does not come in time
constexpr auto kProgress = std::chrono::seconds(1);

}  // namespace

Watch::Watch(std::chrono::milliseconds timeout) : timeout_(timeout) {
    std::thread([this] { tell(); }).detach();
}

void Watch::begin(const std::string& name, bool is_remote, const CopyProgress* copy,
                  std::int64_t of) {
    const std::lock_guard lock(mutex_);
    name_ = name;
    is_remote_ = is_remote;
    copy_ = copy;
    of_ = of;
}

void Watch::finish() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
}

void Watch::tell() {
    const Deadline deadline = Deadline::after(timeout_);
    for (;;) {
        std::this_thread::sleep_for(kProgress);
        StagerWord word;
        {
            const std::lock_guard lock(mutex_);
            if (is_over_)
                return;
            look(word);
            judge(deadline);
        }
        say(word);
    }
}

void Watch::look(StagerWord& word) {
    std::int64_t now = signs;
    if (copy_ != nullptr) {
        now += copy_->bytes + copy_->files;
        if (!is_elsewhere)
            word.progress.push_back({name_, copy_->bytes, of_});
    }
    if (now != before_ || is_elsewhere)
        moved_ = Deadline::Clock::now();
    before_ = now;
}

void Watch::judge(const Deadline& deadline) const {
    const auto still = Deadline::Clock::now() - moved_;
    const char* const has_to_answer =
        is_remote_ ? "the server has to answer; what has come is gone on with"
                   : "the file system that it is on has to answer";
    if (deadline.passed()) {
        const std::string what =
            fmt::format("storage.stage_in: {} was not there after storage.timeout, {} s", name_,
                        timeout_.count() / 1000);
        // More time would not help.
        if (still > kStill)
            say_failed({exit_code::kUnavailable,
                        fmt::format("{}, and nothing came of it in the last {} s of these", what,
                                    std::chrono::floor<std::chrono::seconds>(still).count()),
                        has_to_answer});
        say_failed(
            {exit_code::kUnavailable, what, "give it more time; what has come is gone on with"});
    }
    if (still > (is_remote_ ? kRemoteStandstill : kStandstill))
        say_failed({exit_code::kUnavailable,
                    "storage.stage_in: nothing came of " + name_ + " for a minute", has_to_answer});
}

}  // namespace autolaunch::launcher
