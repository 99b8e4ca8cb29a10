#pragma once
#include "report/console.hpp"
#include "report/event.hpp"
#include "report/event_log.hpp"
#include "report/progress_bar.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace autolaunch::launcher {

struct ReporterOptions {
    std::string version;                ///< of autolaunch, for the banner
    std::filesystem::path events_path;  ///< events.jsonl; empty: none
    bool quiet = false;                 ///< no banner and no closing line; failures and warnings stay
    bool progress = true;               ///< the bar, or plain lines without a terminal
};

/// Turns events into what a person sees and into events.jsonl. Every event is recorded; few are shown.
///
/// Owner: the agent of the node that reports. Threads: one. Blocks: on the file system alone (one write an event; after
/// a failure the ends of two log files are read).
class Reporter {
public:
    using Clock = std::chrono::steady_clock;

    /// Throws SystemError when events_path cannot be written. `console` must outlive the reporter.
    Reporter(ReporterOptions options, Console& console);

    void handle(const Event& event);
    /// Refreshes the progress shown; call it with Console::pump().
    void tick(Clock::time_point now = Clock::now());

private:
    void show(const Event& event, const JobStarted& what);
    void show(const Event& event, const GenerationStarted& what);
    void show(const Event& event, const StepReported& what);
    void show(const Event& event, const CheckpointPublished& what);
    void show(const Event& event, const StopRequested& what);
    void show(const Event& event, const GenerationFailed& what);
    void show(const Event& event, const SpawnFailed& what);
    void show(const Event& event, const WarningRaised& what);
    void show(const Event& event, const JobEnded& what);
    template <class Other>
    void show(const Event&, const Other&) {}  // recorded only

    ReporterOptions options_;
    Console& console_;
    std::optional<EventLog> log_;
    bool log_failed_ = false;
    std::string run_dir_;
    int world_size_ = 1;
    ProgressBar progress_;
    bool progress_changed_ = false;
    std::optional<Clock::time_point> progress_line_at_;  // without a status line
};

}  // namespace autolaunch::launcher
