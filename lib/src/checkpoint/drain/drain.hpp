#pragma once
#include "base/deadline.hpp"
#include "checkpoint/drain/drain_crew.hpp"
#include "checkpoint/drain/drain_plan.hpp"
#include "checkpoint/drain/rate_limit.hpp"
#include "checkpoint/drain/tier.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/error.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch {

/// Where a drain takes checkpoints from.
struct DrainSource {
    std::shared_ptr<Storage> storage;
    std::filesystem::path directory;
};

struct DrainSettings {
    std::filesystem::path directory = {};  ///< where checkpoints are saved
    /// Further places that may have one whole, the nearest first; none in a crew.
    std::vector<DrainSource> others = {};
    DrainRetention retention = {};       ///< of the far tier
    std::uint64_t bytes_per_second = 0;  ///< to and from the far tier, of this drain; 0: no limit
    /// Called once, before the first copy to the far tier. Empty: nothing.
    std::function<void()> before_first = {};
    /// Steps that somebody reads in the far tier just now: they are not deleted. Empty: none.
    std::function<std::set<std::int64_t>()> needed = {};
    std::shared_ptr<DrainCrew> crew =
        {};  ///< where each node has a directory of its own, with its ranks' files alone
    std::chrono::milliseconds copy_timeout =
        std::chrono::hours(1);  ///< of one attempt at one checkpoint, and what the limit adds
    std::chrono::milliseconds first_pause =
        std::chrono::seconds(1);  ///< after a failure; doubled each time
    std::chrono::milliseconds longest_pause = std::chrono::minutes(1);
};

struct DrainedCheckpoint {
    std::int64_t step = 0;
    std::filesystem::path path;
    std::uint64_t bytes = 0;  ///< copied; what was there from an attempt before is not
    double seconds = 0;
    std::uint64_t total_bytes = 0;  ///< of all its files
};

/// Called by the drain's thread.
struct DrainEvents {
    std::function<void(const DrainedCheckpoint& checkpoint)> drained = {};
    std::function<void(const std::string& text)> note =
        {};  ///< a failure, and what is done about it
    std::function<void(const std::filesystem::path& path)> deleted =
        {};  ///< one that the far tier does not keep
    /// It has copied one, or failed, or has nothing to do: before it is idle.
    std::function<void()> turn_over = {};
};

struct DrainProgress {
    std::optional<std::int64_t> step;  ///< being copied
    std::uint64_t bytes_done = 0, bytes_total = 0;
};

/// What is not in the far tier yet, and shall be.
struct DrainRest {
    std::vector<std::int64_t> steps;  ///< newest first
    DrainProgress under_way;
    std::string failure;  ///< of the last attempt; empty: it did not fail

    bool is_nothing() const { return steps.empty() && failure.empty(); }
};

/// Copies complete checkpoints of a directory to a second tier, in the background: data first, the
/// manifest last. Every block is verified against the manifest's digests while it is read, and what
/// an attempt before left in the tier is verified there before it counts. A process that dies in
/// between leaves no half checkpoint; the next one goes on with the files that are missing. A
/// failure is noted, and tried again; a checkpoint that is damaged here is taken from the next
/// source that has it, or noted and left alone. One drain a tier at a time.
///
/// In a crew each copies the files that its own node has. The first one decides, takes back what is
/// half, publishes when all files are there, and clears; the others follow its orders until it
/// ends, and then are idle.
///
/// Owner: rank 0's checkpointer, or each node's leader's. Threads: any; it has one of its own.
/// Blocks: wait_idle(); the destructor until the block that it reads or writes at the moment is
/// over; a request to a server is ended within 3 s.
class Drain {
public:
    Drain(std::shared_ptr<Storage> near, std::unique_ptr<Tier> far, DrainSettings options,
          DrainEvents events);
    Drain(const Drain&) = delete;
    Drain& operator=(const Drain&) = delete;
    ~Drain();

    /// There may be something new to copy: a step that was saved just now, perhaps again. Never
    /// blocks.
    void wake(std::optional<std::int64_t> saved = {});
    /// Until nothing is left to do; false at the deadline.
    bool wait_idle(const Deadline& deadline);
    /// There will be no newer one: the newest is copied whatever its age. Never blocks.
    void finish();
    /// What goes on ends soon, and nothing is begun. Never blocks.
    void stop();
    /// The step that is being copied must not be deleted here.
    DrainProgress progress() const;
    DrainRest rest() const;
    std::filesystem::path place() const { return far_->directory(); }

private:
    /// What is known of a published one: it does not change.
    struct Facts {
        std::optional<double> metric;
        std::optional<std::int64_t> saved_ms;
    };
    static Facts facts_of(const Manifest& manifest);

    void run();
    void wait_woken(bool failed, std::chrono::milliseconds pause);
    void follow();
    void obey(const DrainCrew::Order& order);
    bool work();  ///< one copy or one clearing; false: nothing was to be done
    DrainDecision decide();
    void clear(const std::vector<FarCheckpoint>& remove);
    std::vector<NearCheckpoint> near_checkpoints();
    std::vector<std::int64_t> published_in(std::size_t source);
    NearCheckpoint near_checkpoint(std::int64_t step, const DrainSource& source);
    std::vector<FarCheckpoint> far_checkpoints();
    void copy(std::int64_t step);
    void copy_from(const DrainSource& source, std::int64_t step);
    std::string manifest_in(const DrainSource& source, std::int64_t step);
    Deadline deadline_of(const Manifest& manifest) const;
    std::vector<std::string> copy_files(const DrainSource& source, std::int64_t step,
                                        const Manifest& manifest, const Deadline& deadline);
    std::set<std::string> copy_with_crew(const DrainSource& source, std::int64_t step,
                                         const std::string& text, const Manifest& manifest,
                                         const Deadline& deadline);
    bool all_there(std::int64_t step, const Manifest& manifest, const std::set<std::string>& put);
    void copy_file(const std::string& name, const DrainSource& source, const Manifest::File& file,
                   const Deadline& deadline);
    bool is_there(const std::string& name, const std::vector<std::string>& names,
                  const Manifest::File& file);
    void let_pass(std::uint64_t bytes);
    void note(const std::string& text) const;
    void set_progress(const DrainProgress& progress);

    std::unique_ptr<Tier> far_;
    DrainSettings options_;
    DrainEvents events_;
    std::vector<DrainSource> sources_;
    RateLimit limit_;
    std::map<std::string, Facts> validated_;  ///< in the far tier
    std::map<std::int64_t, Facts> near_facts_;
    std::map<std::int64_t, std::vector<std::size_t>> held_;  ///< which sources have a step
    std::set<std::int64_t> unreadable_;  ///< damaged wherever it is, or another one is there
    /// Those that could not be read in this round, which fails with the newest one's reason once
    /// the others are done. They are tried again in the next.
    std::map<std::int64_t, Error> put_off_;
    std::atomic<std::uint64_t> copied_bytes_ = 0;
    bool has_begun_ = false;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool woken_ = true, idle_ = false;
    std::set<std::int64_t> saved_again_;
    std::set<std::int64_t> unseen_;  ///< saved since it was decided what is left
    DrainProgress progress_;
    std::vector<std::int64_t> left_;
    std::string failure_;
    std::atomic<bool> stop_ = false, at_end_ = false;
    std::thread thread_;  ///< last: it uses the others
};

}  // namespace autolaunch
