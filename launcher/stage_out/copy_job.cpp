#include "stage_out/copy_job.hpp"

#include "base/ask_in_time.hpp"
#include "base/deadline.hpp"
#include "base/url.hpp"
#include "exit_codes/exit_codes.hpp"
#include "stage_out/out_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kTold = std::chrono::seconds(1);
constexpr auto kNothingMoves = std::chrono::seconds(60),
               kNothingOfServer = std::chrono::seconds(150);

/// What main and the threads of one entry have together: these may outlive it.
struct EntryWork {
    EntryWork(std::shared_ptr<const OutFolder> its, OutEntry what)
        : folder(std::move(its)), entry(std::move(what)) {}
    const std::shared_ptr<const OutFolder> folder;
    const OutEntry entry;
    OutCounters counters;
    std::atomic<std::int64_t> of{0};
    std::mutex mutex;  ///< for what follows, and for what is said
    std::condition_variable over;
    std::optional<OutDone> done;
    bool is_left = false;  ///< nobody waits for it any more
};

/// Whether it still moves. Threads: main.
class EntryWatch {
public:
    EntryWatch(const EntryWork& work, const Deadline& deadline)
        : work_(work), deadline_(deadline) {}

    /// What has gone wrong; nothing while all is well.
    std::optional<OutDone> judge() {
        const std::int64_t now = work_.counters.bytes + work_.counters.files + work_.counters.signs;
        if (now != before_)
            moved_ = Deadline::Clock::now();
        before_ = now;
        const auto longest = is_url(work_.entry.to) ? kNothingOfServer : kNothingMoves;
        if (deadline_.passed())
            return failure("was not copied within storage.timeout", "give it more time");
        if (Deadline::Clock::now() - moved_ > longest)
            return failure(
                fmt::format("nothing went to {} for {} s", work_.entry.to, longest.count()),
                "what it is on has to answer");
        return std::nullopt;
    }

private:
    OutDone failure(const std::string& what, const std::string& hint) const {
        return {.name = work_.entry.name,
                .files = work_.counters.files,
                .bytes = work_.counters.bytes,
                .found_files = work_.counters.found_files,
                .left_files = 0,  // how many is seen by who lists the folder
                .left_bytes = std::max<std::int64_t>(work_.of - work_.counters.bytes, 0),
                .exit_code = exit_code::kUnavailable,
                .what = work_.entry.name + ": " + what,
                .hint = hint,
                .took = {}};
    }

    const EntryWork& work_;
    const Deadline deadline_;
    std::int64_t before_ = -1;
    Deadline::Clock::time_point moved_ = Deadline::Clock::now();
};

void begin(const std::shared_ptr<EntryWork>& work, bool removes, const Environment& environment,
           const std::function<void(const OutWord&)>& say) {
    start_detached([work, removes, environment, say] {
        const auto note = [&](const std::string& text) {
            const std::lock_guard lock(work->mutex);
            if (!work->is_left)
                say({.notes = {text}});
        };
        OutDone done = copy_out({.folder = *work->folder,
                                 .entry = work->entry,
                                 .counters = work->counters,
                                 .note = note,
                                 .will_copy = [&](std::int64_t bytes) { work->of = bytes; },
                                 .removes = removes},
                                environment);
        const std::lock_guard lock(work->mutex);
        work->done = std::move(done);
        work->over.notify_all();
    });
}

/// True: it is left to itself.
bool wait_for(EntryWork& work, const Deadline& deadline,
              const std::function<void(const OutWord&)>& say) {
    EntryWatch watch(work, deadline);
    std::unique_lock lock(work.mutex);
    while (!work.over.wait_for(lock, kTold, [&] { return work.done.has_value(); })) {
        say({.progress = {
                 {work.entry.name, std::max<std::int64_t>(work.counters.bytes, 0), work.of}}});
        if (auto failed = watch.judge()) {
            work.is_left = true;
            say({.done = {std::move(*failed)}});
            return true;
        }
    }
    say({.done = {*work.done}});
    return false;
}

}  // namespace

bool copy_job(const std::shared_ptr<const OutFolder>& folder, const std::vector<std::string>& names,
              bool removes, const Environment& environment,
              const std::function<void(const OutWord&)>& say) {
    const OutOrder& order = folder->order();
    const Deadline deadline = Deadline::after(order.timeout);
    bool hangs = false;
    for (const OutEntry& entry : order.entries) {
        if (std::find(names.begin(), names.end(), entry.name) == names.end() ||
            !folder->has(entry.name))
            continue;
        const auto work = std::make_shared<EntryWork>(folder, entry);
        begin(work, removes, environment, say);
        hangs = wait_for(*work, deadline, say) || hangs;
    }
    if (const auto others = folder->strangers(); !others.empty())
        say({.notes = {fmt::format("{} is in no entry's folder, and stays there",
                                   (folder->path_of(others.front())).string())}});
    if (removes) {
        for (const OutEntry& entry : order.entries)
            if (folder->has(entry.name) && !folder->has_files(entry.name))
                folder->remove(entry.name);
        folder->remove_if_empty();
    }
    say({.over = true});
    return hangs;
}

}  // namespace autolaunch::launcher
