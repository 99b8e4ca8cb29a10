#pragma once
#include "report/console.hpp"
#include "report/event.hpp"
#include "report/event_log.hpp"
#include "report/ledger_entry.hpp"
#include "report/progress_bar.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct ReporterOptions {
    std::string version;                ///< of autolaunch, for the banner
    std::filesystem::path events_path;  ///< events.jsonl; empty: none
    bool quiet = false;    ///< no banner and no closing line; failures and warnings stay
    bool progress = true;  ///< the bar, or plain lines without a terminal
    std::vector<std::string> secrets = {};  ///< not to be recorded
    WorkerContext workers = {};             ///< the ranks of this node
    bool only_records = false;  ///< on all nodes but the head, which shows what concerns the job
};

/// Turns events into what a person sees and into events.jsonl. Every event is recorded; few are
/// shown, and on other nodes than the head only the loss of the head. The job's ledger is kept
/// beside events.jsonl, and shown at the end. Before it gives GenerationFailed the agent drains the
/// LogFollower, so that the failure screen comes after the ranks' lines.
///
/// Owner: the agent of the node that reports. Threads: one. Blocks: on the file system alone (one
/// write an event; after a failure the ends of two log files are read).
class Reporter {
public:
    using Clock = std::chrono::steady_clock;

    /// Without a status line progress is a plain line, this long after the one before; the interval
    /// grows to the maximum, because a log of days needs no line every ten seconds.
    static constexpr std::chrono::seconds kProgressLineInterval{10}, kMaxProgressLineInterval{60};
    /// A stop is announced when it takes longer than this; a failed generation is mostly gone
    /// before.
    static constexpr std::chrono::milliseconds kStopNoticeDelay{500};

    /// Throws SystemError when events_path cannot be written. `console` must outlive the reporter.
    Reporter(ReporterOptions options, Console& console);

    void handle(const Event& event);
    /// This node's agent is head of a job that had another one: it shows what concerns the job, and
    /// goes on with that head's events.
    void become_head(JobStarted job, const std::filesystem::path& events, int generation);
    /// No longer head: what is told goes into that file, and what was held back is forgotten.
    void become_member(const std::filesystem::path& events);
    /// Values of the job's secrets, all that are known: not to be recorded.
    void hide_secrets(std::vector<std::string> values);
    /// Asked before each event; while it says no, events wait: a head that nobody has answered may
    /// not be one any more. Empty: always.
    void set_gate(std::function<bool()> may_record) { may_record_ = std::move(may_record); }
    /// Gets every event that is recorded, after it was.
    void set_tap(std::function<void(const Event&)> tap) { tap_ = std::move(tap); }
    /// Where the job's time has gone up to the newest event.
    Ledger ledger() const { return book_.ledger(); }
    /// Refreshes what is shown; call it with Console::pump().
    void tick(Clock::time_point now = Clock::now());
    /// At the end, when all has been written: says, unless it was said, that output of ranks was
    /// lost on its way to stdout. False then; nobody who reads it any more is no loss.
    bool output_arrived();

private:
    struct StopNotice {
        std::string text;
        Clock::time_point since;
    };
    /// Shown on a terminal while ranks stop: until SIGKILL.
    struct Countdown {
        std::string reason;
        Clock::time_point kill_at;
        bool can_hurry = false;
    };

    void take(const Event& event);
    void record(const Event& event);
    void open_log(const std::filesystem::path& events);
    void say_of_record(const std::string& text);
    void say_of_output();
    void keep_ledger(const Event& event);
    void read_earlier_attempts(const Event& event);
    void write_ledger();
    void show_ledger(const JobEnded& job);
    void show_progress(Clock::time_point now);
    void show_countdown(Clock::time_point now);

    // What is shown of each event; the others are recorded only.
    void show(const Event& event, const JobStarted& job);
    void show(const Event& event, const GenerationStarted& started);
    void show(const Event& event, const TimeLimitKnown& limit);
    void show(const Event& event, const StopBudgetKnown& budget);
    void show(const Event& event, const StopExplained& stop);
    void show(const Event& event, const StepReported& report);
    void show(const Event& event, const CheckpointPublished& checkpoint);
    void show(const Event& event, const StopRequested& stop);
    void show(const Event& event, const GenerationFailed& failure);
    void show(const Event& event, const GenerationEnded& ended);
    void show(const Event& event, const NodeLost& lost);
    void show(const Event& event, const WorldChanged& world);
    void show(const Event& event, const NodeJoined& joined);
    void show(const Event& event, const NodeDrained& drained);
    void show(const Event& event, const HeadLost& lost);
    void show(const Event& event, const HeadChanged& changed);
    void show(const Event& event, const SpawnFailed& failure);
    void show(const Event& event, const WarningRaised& warning);
    void show(const Event& event, const PythonPreloaded& imports);
    void show(const Event& event, const DataStaging& staging);
    void show(const Event& event, const DataComes& data);
    void show(const Event& event, const DataStaged& staged);
    void show(const Event& event, const DataStagingOut& staging);
    void show(const Event& event, const DataStagedOut& staged);
    void show(const Event& event, const DataLeft& left);
    void show(const Event& event, const FlightShown& flight);
    void show(const Event& event, const StandstillNoticed& stands);
    void show(const Event& event, const StacksShown& stacks);
    void show(const Event& event, const StandstillOver& over);
    void show(const Event& event, const JobHung& hung);
    void show(const Event& event, const StragglersSeen& seen);
    void show(const Event& event, const JobEnded& job);
    template <class Other>
    void show(const Event&, const Other&) {}

    ReporterOptions options_;
    const std::vector<std::string> of_environment_;  ///< secrets that were known at the start
    Console& console_;
    std::optional<EventLog> log_;
    std::function<bool()> may_record_;
    std::function<void(const Event&)> tap_;
    std::vector<Event> held_back_;
    bool told_of_loss_ = false;    ///< of events: once, and how many at the end
    bool told_of_output_ = false;  ///< that it does not reach stdout
    LedgerBook book_;              ///< but where others show the job
    JobStarted job_;
    bool started_before_ = false;
    ProgressBar progress_;
    bool progress_changed_ = false;
    int progress_columns_ = 0;  ///< of the terminal that the status line was made for
    std::optional<Clock::time_point> progress_line_at_;
    std::chrono::seconds progress_line_interval_ = kProgressLineInterval;
    std::optional<StopNotice> stop_notice_;
    std::optional<Countdown> countdown_;
};

}  // namespace autolaunch::launcher
