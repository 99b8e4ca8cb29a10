#include "stage_out/copy_job.hpp"

#include "base/deadline.hpp"
#include "base/url.hpp"
#include "exit_codes/exit_codes.hpp"
#include "stage_out/out_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr auto kTold = std::chrono::seconds(1);
constexpr auto kNothingMoves = std::chrono::seconds(60),
               kNothingOfServer = std::chrono::seconds(150);

/// Of one entry. Owner: copy_job(). Threads: one of its own.
class EntryWatch {
public:
    EntryWatch(const OutEntry& entry, const OutCounters& counters, const Deadline& deadline,
               const std::function<void(const OutWord&)>& say, const std::function<void()>& give_up)
        : entry_(entry), counters_(counters), deadline_(deadline), say_(say), give_up_(give_up) {
        thread_ = std::thread([this] { tell(); });
    }
    EntryWatch(const EntryWatch&) = delete;
    EntryWatch& operator=(const EntryWatch&) = delete;
    ~EntryWatch() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        over_.notify_all();
        thread_.join();
    }
    void set_all(std::int64_t bytes) { of_ = bytes; }

private:
    void tell() {
        std::unique_lock lock(mutex_);
        while (!over_.wait_for(lock, kTold, [this] { return is_over_; })) {
            say_({.progress = {{entry_.name, std::max<std::int64_t>(counters_.bytes, 0), of_}}});
            judge();
        }
    }

    void judge() {
        const std::int64_t now = counters_.bytes + counters_.files + counters_.signs;
        if (now != before_)
            moved_ = Deadline::Clock::now();
        before_ = now;
        const auto longest = is_url(entry_.to) ? kNothingOfServer : kNothingMoves;
        if (deadline_.passed())
            fail("was not copied within storage.timeout", "give it more time");
        else if (Deadline::Clock::now() - moved_ > longest)
            fail(fmt::format("nothing went to {} for {} s", entry_.to, longest.count()),
                 "what it is on has to answer");
    }

    void fail(const std::string& what, const std::string& hint) {
        say_({.done = {{.name = entry_.name,
                        .files = counters_.files,
                        .bytes = counters_.bytes,
                        .found_files = counters_.found_files,
                        .left_files = 0,  // how many is seen by who lists the folder
                        .left_bytes = std::max<std::int64_t>(of_ - counters_.bytes, 0),
                        .exit_code = exit_code::kUnavailable,
                        .what = entry_.name + ": " + what,
                        .hint = hint,
                        .took = {}}},
              .over = true});
        give_up_();
    }

    const OutEntry& entry_;
    const OutCounters& counters_;
    const Deadline deadline_;
    const std::function<void(const OutWord&)>& say_;
    const std::function<void()>& give_up_;
    std::atomic<std::int64_t> of_{0};
    std::int64_t before_ = -1;
    Deadline::Clock::time_point moved_ = Deadline::Clock::now();
    std::mutex mutex_;
    std::condition_variable over_;
    bool is_over_ = false;
    std::thread thread_;
};

}  // namespace

void copy_job(const OutFolder& folder, const std::vector<std::string>& names, bool removes,
              const Environment& environment, const std::function<void(const OutWord&)>& say,
              const std::function<void()>& give_up) {
    const OutOrder& order = folder.order();
    const Deadline deadline = Deadline::after(order.timeout);
    for (const OutEntry& entry : order.entries) {
        if (std::find(names.begin(), names.end(), entry.name) == names.end() ||
            !folder.has(entry.name))
            continue;
        OutCounters counters;
        EntryWatch watch(entry, counters, deadline, say, give_up);
        const OutDone done =
            copy_out({.folder = folder,
                      .entry = entry,
                      .counters = counters,
                      .note = [&say](const std::string& note) { say({.notes = {note}}); },
                      .will_copy = [&watch](std::int64_t bytes) { watch.set_all(bytes); },
                      .removes = removes},
                     environment);
        say({.done = {done}});
    }
    if (removes) {
        for (const OutEntry& entry : order.entries)
            if (folder.has(entry.name) && !folder.has_files(entry.name))
                folder.remove(entry.name);
        folder.remove_if_empty();
    }
    say({.over = true});
}

}  // namespace autolaunch::launcher
