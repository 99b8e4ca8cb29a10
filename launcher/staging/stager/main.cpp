// autolaunch-stager: brings a job's data to this node's own disk. The agent starts it, says on its
// stdin what is wanted, and reads there what has come of it. A process of its own, which may hang
// with a shared file system while the agent does not.
#include "base/deadline.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/stage_tree.hpp"
#include "staging/check_digests.hpp"
#include "staging/stager_words.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWord = std::chrono::seconds(60);        // of the agent
constexpr auto kStandstill = std::chrono::seconds(60);  // nothing comes
constexpr auto kProgress = std::chrono::seconds(1);
constexpr std::size_t kMostLine = 64U << 20;

void say(const StagerWord& word) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const std::string line = as_line(word) + '\n';
    for (std::size_t done = 0; done < line.size();) {
        const ssize_t sent = ::send(0, line.data() + done, line.size() - done, MSG_NOSIGNAL);
        if (sent <= 0)
            ::_exit(0);  // nobody listens
        done += static_cast<std::size_t>(sent);
    }
}

[[noreturn]] void say_failed(StagingFailure failure) {
    say({.failed = {std::move(failure)}});
    ::_exit(0);
}

std::string hear() {
    std::string line;
    const Deadline deadline = Deadline::after(kWord);
    while (line.find('\n') == std::string::npos) {
        pollfd waited{0, POLLIN, 0};
        char bytes[65536];
        if (line.size() > kMostLine || ::poll(&waited, 1, deadline.poll_timeout_ms()) <= 0)
            ::_exit(0);
        const ssize_t got = ::recv(0, bytes, sizeof bytes, 0);
        if (got <= 0)
            ::_exit(0);
        line.append(bytes, static_cast<std::size_t>(got));
    }
    return line.substr(0, line.find('\n'));
}

void watch_agent() {
    std::thread([] {
        pollfd waited{0, POLLIN, 0};
        while (::poll(&waited, 1, -1) < 0 && errno == EINTR) {
        }
        ::_exit(0);  // it says nothing any more, so it is gone
    }).detach();
}

/// What the thread that tells of it needs of the work.
struct Work {
    std::atomic<std::int64_t> signs{0};       ///< grows while the source answers
    std::atomic<bool> is_on_own_disk{false};  ///< syncing and verifying have no signs
    std::mutex mutex;
    std::string name;  ///< of the item
    CopyProgress* copy = nullptr;
    std::int64_t of = 0;
};

void tell_progress(Work& work, const StagerOrder& order) {
    std::thread([&work, timeout = order.timeout] {
        const Deadline deadline = Deadline::after(timeout);
        Clock::time_point moved = Clock::now();
        std::int64_t before = -1;
        for (;;) {
            std::this_thread::sleep_for(kProgress);
            StagerWord word;
            std::string name;
            {
                const std::lock_guard lock(work.mutex);
                name = work.name;
                std::int64_t now = work.signs;
                if (work.copy != nullptr) {
                    now += work.copy->bytes + work.copy->files;
                    word.progress.push_back({name, work.copy->bytes, work.of});
                }
                if (now != before || work.is_on_own_disk)
                    moved = Clock::now();
                before = now;
            }
            if (deadline.passed())
                say_failed({exit_code::kUnavailable,
                            fmt::format("storage.stage_in: {} was not there after storage.timeout, "
                                        "{} s",
                                        name, timeout.count() / 1000),
                            "give it more time; what has come is gone on with"});
            if (Clock::now() - moved > kStandstill)
                say_failed({exit_code::kUnavailable,
                            "storage.stage_in: nothing came of " + name + " for a minute",
                            "the file system that it is on has to answer"});
            say(word);
        }
    }).detach();
}

void take_all_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

StagedTree stage(StageCache& cache, const StagerItem& item, const StagerOrder& order, Work& work,
                 CopyProgress& progress) {
    SourceTree source = walk_source(item.from, &work.signs);
    {
        const std::lock_guard lock(work.mutex);
        work.copy = &progress;
        work.of = source.tree.bytes();
    }
    const std::string words = key_words(item.from, item.verify);
    StagingRequest request;
    request.key = source_key(words, source.tree);
    request.copy.bytes_per_second = order.bytes_per_second;
    request.wait = [&work] { ++work.signs; };
    request.check_source = [&] {
        if (source_key(words, walk_source(item.from, &work.signs).tree) != request.key)
            throw ExitError(exit_code::kNoInput, ErrorCode::mismatch,
                            item.from + " was changed while it was staged",
                            "start the job once nobody writes there any more");
        work.is_on_own_disk = true;
    };
    if (!item.verify.empty())
        request.verify = [&item](int folder, const Tree& tree) {
            check_digests(folder, tree, item.verify, item.from);
        };
    return stage_tree(cache, source, request, progress);
}

void run() {
    take_all_descriptors();
    const StagerOrder order = parse_order(hear());
    watch_agent();
    Work work;
    tell_progress(work, order);
    StageCache cache(order.scratch, order.most_bytes);
    std::list<HeldTree> held;  // until the agent holds them, too
    for (const StagerItem& item : order.items) {
        const auto began = Clock::now();
        CopyProgress progress;
        {
            const std::lock_guard lock(work.mutex);
            work.name = item.name;
        }
        StagedTree staged = stage(cache, item, order, work, progress);
        {
            const std::lock_guard lock(work.mutex);
            work.copy = nullptr;
            work.is_on_own_disk = false;
        }
        say({.staged = {{.name = item.name,
                         .entry = staged.held.name,
                         .path = staged.held.path,
                         .bytes = staged.held.bytes,
                         .files = staged.held.files,
                         .read_bytes = progress.read_bytes,
                         .was_here = staged.was_here,
                         .took = elapsed_since(began)}},
             .notes = staged.notes});
        held.push_back(std::move(staged.held));
    }
    say({.done = true});
    for (;;)
        ::pause();  // until the agent ends us
}

}  // namespace

}  // namespace autolaunch::launcher

int main() {
    using namespace autolaunch;
    try {
        launcher::run();
    } catch (const Error& error) {
        launcher::say_failed({launcher::exit_code_of(error),
                              std::string(error.what()).starts_with("storage.")
                                  ? error.what()
                                  : std::string("storage.stage_in: ") + error.what(),
                              error.hint()});
    }
    return 0;
}
