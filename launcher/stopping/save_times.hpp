#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// The last save of which the size is known.
struct MeasuredSave {
    std::string place;  ///< the directory of checkpoints
    std::int64_t step = 0, bytes = 0;
    double stall_seconds = 0, seconds = 0;

    bool operator==(const MeasuredSave&) const = default;
};
/// And the last copy to a further place.
struct MeasuredDrain {
    std::string place;
    std::int64_t step = 0, bytes = 0;  ///< that were moved
    double seconds = 0;

    bool operator==(const MeasuredDrain&) const = default;
};

/// How long the job's saves took, from their begin until they were published: the newest kMost of
/// them, over generations and requeues. And how fast the last one was, here and to each further
/// place.
///
/// Owner: the head's agent. Threads: one. Blocks: read() and
/// write(), on the file system.
class SaveTimes {
public:
    static constexpr std::size_t kMost = 256, kMostPlaces = 16;
    static constexpr char kFile[] = "save-times.json";  ///< in the run directory

    SaveTimes() = default;
    /// From the file's text; what is no such text is no time. Pure.
    static SaveTimes parse(std::string_view text);
    /// Of the run directory's file; none where there is no such file, or not one of ours.
    static SaveTimes read(const std::filesystem::path& run_dir);
    /// Throws Error.
    void write(const std::filesystem::path& run_dir) const;

    void add(double seconds);
    /// What makes no sense is not taken. `path` of the checkpoint.
    void add_save(const std::string& path, MeasuredSave save);
    /// `path` of the checkpoint in its place; `copied` of its `bytes`. One that was there for the
    /// most part says nothing of the place.
    void add_drain(const std::string& path, std::int64_t step, std::int64_t bytes,
                   std::int64_t copied, double seconds);
    const std::optional<MeasuredSave>& last() const { return last_; }
    const std::vector<MeasuredDrain>& drains() const { return drains_; }
    std::size_t count() const { return seconds_.size(); }
    bool is_empty() const { return seconds_.empty() && drains_.empty(); }
    /// The time that 99 of 100 saves did not exceed; of fewer than 100 the longest. Nothing: none.
    std::optional<std::chrono::milliseconds> p99() const;
    std::string to_text() const;

private:
    void add(MeasuredSave save);
    void add(MeasuredDrain drain);

    std::vector<double> seconds_;  // oldest first
    std::optional<MeasuredSave> last_;
    std::vector<MeasuredDrain> drains_;  // the one measured last is last
};

/// How long a rank may take until it hears of a stop: the longest step of the last few, since a
/// rank looks between two steps. It fades.
class StepPace {
public:
    using Clock = std::chrono::steady_clock;

    void begin_generation() { last_ = {}; }
    void step_done(Clock::time_point now);
    std::chrono::milliseconds longest() const;

private:
    Clock::time_point last_{};
    Clock::duration longest_{0};
};

}  // namespace autolaunch::launcher
