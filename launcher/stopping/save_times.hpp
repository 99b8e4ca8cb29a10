#pragma once
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// How long the job's saves took, from their begin until they were published: the newest kMost of
/// them, over generations and requeues.
///
/// Owner: the head's agent. Threads: one. Blocks: read() and
/// write(), on the file system.
class SaveTimes {
public:
    static constexpr std::size_t kMost = 256;
    static constexpr char kFile[] = "save-times.json";  ///< in the run directory

    SaveTimes() = default;
    /// From the file's text; what is no such text is no time. Pure.
    static SaveTimes parse(std::string_view text);
    /// Of the run directory's file; none where there is no such file, or not one of ours.
    static SaveTimes read(const std::filesystem::path& run_dir);
    /// Throws Error.
    void write(const std::filesystem::path& run_dir) const;

    void add(double seconds);
    std::size_t count() const { return seconds_.size(); }
    /// The time that 99 of 100 saves did not exceed; of fewer than 100 the longest. Nothing: none.
    std::optional<std::chrono::milliseconds> p99() const;
    std::string to_text() const;

private:
    std::vector<double> seconds_;  // oldest first
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
