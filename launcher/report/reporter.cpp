#include "report/reporter.hpp"

#include "base/owned_folder.hpp"
#include "base/room_on_disk.hpp"
#include "report/banner.hpp"
#include "report/failure_screen.hpp"
#include "report/terminal_text.hpp"
#include "report/units.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr const char* kLedgerFile = "ledger.json";
constexpr std::size_t kMostLedgerBytes = 1U << 20;
constexpr std::size_t kMostHeldBack = 10'000;
constexpr std::size_t kMostEventBytes = 64U << 20;

bool is_no_rank_s_doing(Cause cause) {
    return cause == Cause::preempted || cause == Cause::time_limit || cause == Cause::cancelled ||
           cause == Cause::agent_killed;
}

}  // namespace

Reporter::Reporter(ReporterOptions options, Console& console)
    : options_(std::move(options)), of_environment_(options_.secrets), console_(console) {
    if (!options_.events_path.empty())
        open_log(options_.events_path);
}

void Reporter::open_log(const std::filesystem::path& events) {
    log_.emplace(events, options_.secrets);
    if (!options_.workers.run_id.empty())
        log_->set_workers(options_.workers);
}

// What an earlier head has told is its own: a line that it had begun is ended, and ours follow.
void Reporter::become_head(JobStarted job, const std::filesystem::path& events, int generation) {
    options_.only_records = false;
    job_ = std::move(job);
    open_log(events);
    log_->end_torn_line();
    read_earlier_attempts({std::chrono::system_clock::now(), generation, job_});
}

void Reporter::become_member(const std::filesystem::path& events) {
    options_.only_records = true;
    held_back_.clear();
    may_record_ = {};
    stop_notice_.reset();
    countdown_.reset();
    console_.set_status({});
    open_log(events);
}

void Reporter::hide_secrets(std::vector<std::string> values) {
    values.insert(values.end(), of_environment_.begin(), of_environment_.end());
    options_.secrets = std::move(values);
    if (log_)
        log_->set_secrets(options_.secrets);
}

void Reporter::handle(const Event& event) {
    if (may_record_ && !may_record_()) {
        if (held_back_.size() < kMostHeldBack)
            held_back_.push_back(event);
        return;
    }
    for (const Event& earlier : std::exchange(held_back_, {}))
        take(earlier);
    take(event);
}

void Reporter::take(const Event& event) {
    record(event);
    if (tap_)
        tap_(event);
    if (options_.only_records && !std::holds_alternative<HeadLost>(event.what))
        return;
    keep_ledger(event);
    std::visit([this, &event](const auto& what) { show(event, what); }, event.what);
}

// A folder that an earlier attempt of the job has left has its ledger, too.
void Reporter::read_earlier_attempts(const Event& event) try {
    const auto folder = OwnedFolder::open(log_->path().parent_path());
    const auto text = folder.read(kLedgerFile, kMostLedgerBytes);
    const auto before = text ? parse_ledger(*text) : std::nullopt;
    if (before)
        book_ = LedgerBook(*before);
    if (before && before->next_generation >= event.generation)
        return;
    const auto lines = folder.read(log_->path().filename(), kMostEventBytes);
    if (auto told = book_of_events(lines.value_or(std::string()), event.at))
        book_ = std::move(*told);
    else if (!before)
        book_.note_gap(text ? "the ledger of earlier attempts cannot be understood"
                            : "earlier attempts have left no ledger");
} catch (const Error& error) {
    book_.note_gap(std::string("the ledger of earlier attempts: ") + error.what());
}

void Reporter::keep_ledger(const Event& event) {
    if (options_.only_records)
        return;
    if (std::holds_alternative<JobStarted>(event.what) && event.generation > 0 && log_)
        read_earlier_attempts(event);
    enter(book_, event);
    if (std::holds_alternative<JobEnded>(event.what) && log_)
        write_ledger();
}

void Reporter::write_ledger() try {
    OwnedFolder::open(log_->path().parent_path()).replace(kLedgerFile, ledger_json(book_.ledger()));
} catch (const Error& error) {
    say_of_record(fmt::format("the ledger is not kept: {}", error.what()));
}

// Where nothing but running was seen it would say nothing.
void Reporter::show_ledger(const JobEnded& job) {
    const Ledger ledger = book_.ledger();
    if (ledger.steps_reported || job.restarts > 0 || ledger.attempts > 1)
        console_.write_message("time: " + ledger_line(ledger));
}

// A full disk takes events, and neither the job nor what its screen says.
void Reporter::record(const Event& event) {
    if (!log_)
        return;
    const EventLog::Outcome outcome = log_->append(event);
    if (outcome == EventLog::Outcome::lost_first && !told_of_loss_)
        say_of_record(fmt::format("events are not recorded: {}; the job goes on{}",
                                  log_->why_lost(),
                                  tells_want_of_room(log_->why_lost()) ? ", make room there" : ""));
    told_of_loss_ |= outcome == EventLog::Outcome::lost_first;
    if (std::holds_alternative<JobEnded>(event.what) && log_->lost() > 0)
        say_of_record(
            fmt::format("{} events are missing in {}", log_->lost(), log_->path().string()));
}

void Reporter::say_of_record(const std::string& text) {
    console_.write_message(fmt::format("{} {}", console_.style().yellow("warning:"), text));
}

// Whoever prints to a pipe without a reader, or to a full disk, would be told by write(2); here the
// ranks' own files take all of it, and only we know.
void Reporter::say_of_output() {
    if (told_of_output_ || console_.output_lost() == 0)
        return;
    told_of_output_ = true;
    const std::string why = console_.output_unread() ? "nobody reads it any more"
                                                     : std::strerror(console_.output_lost());
    say_of_record(fmt::format(
        "stdout cannot be written: {}; what the ranks print is in {}, and the job goes on", why,
        job_.run_dir));
}

bool Reporter::output_arrived() {
    if (console_.output_lost() == 0 || console_.output_unread())
        return true;
    say_of_output();
    return false;
}

void Reporter::tick(Clock::time_point now) {
    if (countdown_ && console_.has_status_line())
        show_countdown(now);
    else
        show_progress(now);
    say_of_output();
    if (!stop_notice_ || now - stop_notice_->since < kStopNoticeDelay)
        return;
    console_.write_message(stop_notice_->text);
    stop_notice_.reset();
}

void Reporter::show(const Event&, const PythonPreloaded& imports) {
    if (!options_.quiet)
        console_.write_message(preload_line(imports));
}

void Reporter::show(const Event&, const DataStaging& staging) {
    if (!options_.quiet)
        console_.write_message(staging_line(staging));
}

void Reporter::show(const Event&, const DataComes& data) {
    if (!options_.quiet)
        console_.write_message(coming_line(data));
}

void Reporter::show(const Event&, const DataStaged& staged) {
    if (!options_.quiet)
        console_.write_message(staged_line(staged));
}

void Reporter::show(const Event&, const DataStagingOut& staging) {
    if (!options_.quiet)
        console_.write_message(staging_out_line(staging));
}

void Reporter::show(const Event&, const DataStagedOut& staged) {
    if (!options_.quiet)
        console_.write_message(staged_out_line(staged));
}

void Reporter::show(const Event&, const DataLeft& left) { console_.write_message(left_line(left)); }

void Reporter::show_countdown(Clock::time_point now) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(countdown_->kill_at - now);
    console_.set_status(left.count() <= 0
                            ? fmt::format("stopping ({}) · SIGKILL", countdown_->reason)
                            : fmt::format("stopping ({}) · SIGKILL in {} s{}", countdown_->reason,
                                          left.count(),
                                          countdown_->can_hurry ? " · Ctrl-C again: now" : ""));
}

void Reporter::show_progress(Clock::time_point now) {
    const int columns = console_.has_status_line() ? console_.style().columns : 0;
    const bool changed = progress_changed_ || columns != progress_columns_;
    if (!options_.progress || !changed || !progress_.known())
        return;
    if (console_.has_status_line()) {
        progress_columns_ = columns;
        console_.set_status(progress_.line(columns - 1));
    } else {
        if (progress_line_at_ && now - *progress_line_at_ < progress_line_interval_)
            return;
        if (progress_line_at_)
            progress_line_interval_ =
                std::min(kMaxProgressLineInterval, progress_line_interval_ + kProgressLineInterval);
        progress_line_at_ = now;
        console_.write_message(progress_.plain());
    }
    progress_changed_ = false;
}

void Reporter::show(const Event&, const JobStarted& job) {
    job_ = job;
    const TextStyle style = console_.style();
    if (!options_.quiet) {
        console_.write_message(banner(job, options_.version, style));
        return;
    }
    for (const auto& warning : job.warnings)
        show({}, WarningRaised{warning});
}

void Reporter::show(const Event&, const GenerationStarted& started) {
    progress_.restart();
    countdown_.reset();
    const bool is_restart = std::exchange(started_before_, true);
    if (!options_.quiet)
        console_.write_message(placement_line(job_, started, is_restart));
}

void Reporter::show(const Event&, const TimeLimitKnown& limit) {
    if (!options_.quiet || limit.changed)
        console_.write_message(fmt::format(
            "  ends in   {}{}{}", format_duration(limit.left),
            limit.changed ? ", the scheduler says now" : "",
            limit.over_time.count() > 0
                ? "; " + format_duration(limit.over_time) + " of it after the limit (OverTimeLimit)"
                : ""));
}

void Reporter::show(const Event& event, const StopBudgetKnown& budget) {
    if (!budget.fits)
        return show(event, WarningRaised{budget.text});
    if (!options_.quiet)
        console_.write_message("  stop      " + budget.text);
}

void Reporter::show(const Event&, const StopExplained& stop) {
    if (countdown_)
        countdown_->kill_at = Clock::now() + stop.grace;
    const bool known = stop.origin != "unknown" && stop.origin != "signal";
    if (!options_.quiet && known)
        console_.write_message(
            fmt::format("  stop      {}: {}; SIGKILL to ranks that are left in {}", stop.origin,
                        stop.evidence, format_duration(stop.grace)));
}

void Reporter::show(const Event& event, const StepReported& report) {
    progress_.add(report, event.at);
    progress_changed_ = true;
}

void Reporter::show(const Event&, const CheckpointPublished& checkpoint) {
    progress_.add(checkpoint);
    progress_changed_ = true;
}

void Reporter::show(const Event&, const StopRequested& stop) {
    std::string text = fmt::format("stopping all ranks: {}", stop.reason);
    if (stop.grace)
        text += fmt::format("; SIGKILL in {}{}", format_duration(*stop.grace),
                            stop.can_hurry ? ", at once with another Ctrl-C" : "");
    stop_notice_ = StopNotice{std::move(text), Clock::now()};
    if (stop.grace)
        countdown_ = Countdown{stop.reason, Clock::now() + *stop.grace, stop.can_hurry};
}

void Reporter::show(const Event&, const GenerationFailed& failure) {
    stop_notice_.reset();
    countdown_.reset();
    progress_.restart();
    console_.set_status({});
    console_.write_message(failure_screen(failure, console_.style()));
}

// Of failures the screen has said it.
void Reporter::show(const Event&, const GenerationEnded& ended) {
    if (options_.quiet || !ended.record || !is_no_rank_s_doing(ended.record->cause))
        return;
    if (!ended.record->node.empty())  // a node's doing, which the user should look at
        console_.write_message(
            console_.style().red(fmt::format("✗ {}: {}", ended.record->node, ended.record->what)));
    console_.write_message(
        fmt::format("  stopped   cause: {}, {} · {}", name_of(ended.record->cause),
                    name_of(ended.record->certainty), fmt::join(ended.record->evidence, " · ")) +
        (ended.no_requeue.empty() ? "" : " · no requeue: " + ended.no_requeue));
}

void Reporter::show(const Event&, const NodeLost& lost) {
    stop_notice_.reset();
    countdown_.reset();
    progress_.restart();
    console_.set_status({});
    console_.write_message(failure_screen(lost, console_.style()));
}

void Reporter::show(const Event&, const WorldChanged& world) {
    job_.world_size = world.world_size;
    stop_notice_.reset();  // where ranks were stopped for this alone, no failure has taken it away
    countdown_.reset();
    progress_.restart();
    console_.set_status({});
    std::string text =
        fmt::format("  go on     {} node{} · {} rank{}", world.nodes, world.nodes == 1 ? "" : "s",
                    world.world_size, world.world_size == 1 ? "" : "s");
    if (!world.without.empty())
        text += escape_for_terminal(fmt::format(" · without {}", fmt::join(world.without, ", ")),
                                    Colours::strip);
    if (!world.instead.empty())
        text += escape_for_terminal(fmt::format(" · {} instead", fmt::join(world.instead, ", ")),
                                    Colours::strip);
    console_.write_message(text);
}

void Reporter::show(const Event&, const NodeJoined& joined) {
    console_.write_message(escape_for_terminal(
        fmt::format("  joined    {} ({}) · {} rank{} · takes part {}", joined.node, joined.address,
                    joined.ranks, joined.ranks == 1 ? "" : "s", joined.when),
        Colours::strip));
}

void Reporter::show(const Event&, const NodeDrained& drained) {
    console_.write_message(
        escape_for_terminal(fmt::format("  left      {} · drained", drained.node), Colours::strip));
}

void Reporter::show(const Event&, const HeadLost& lost) {
    console_.write_message(console_.style().red(fmt::format("✗ the head was lost: {}", lost.why)) +
                           fmt::format("\n    cause: {}", name_of(Cause::node_lost)));
}

void Reporter::show(const Event&, const HeadChanged& changed) {
    console_.write_message(escape_for_terminal(
        fmt::format("  head      {}, instead of {}, which is not heard any more", changed.node,
                    changed.from),
        Colours::strip));
}

void Reporter::show(const Event&, const SpawnFailed& failure) {
    const std::string who = console_.style().red(
        failure.while_running ? std::string("✗ data that ranks run on does not come")
                              : fmt::format("✗ rank {} could not be started", failure.rank));
    console_.write_message(fmt::format("{}: {}", who, failure.what));
    if (!failure.hint.empty())
        console_.write_message("    " + failure.hint);
    console_.write_message(fmt::format("    cause: {}", name_of(failure.cause)));
}

void Reporter::show(const Event&, const WarningRaised& warning) {
    console_.write_message(fmt::format("{} {}", console_.style().yellow("warning:"), warning.text));
}

void Reporter::show(const Event&, const FlightShown& flight) {
    console_.write_message("where the ranks are:\n" + flight_screen(flight.lines, flight.path));
}

void Reporter::show(const Event&, const StandstillNoticed& stands) {
    console_.write_message(console_.style().yellow("the job stands still: ") + stands.headline +
                           "\n" + flight_screen(stands.lines, "") +
                           flight_screen(stands.flight, stands.path));
}

void Reporter::show(const Event&, const StacksShown& stacks) {
    std::string line = fmt::format("rank {}'s threads", stacks.rank);
    if (!stacks.node.empty())
        line += " on " + stacks.node;
    if (!stacks.path.empty())
        line += ": less " + stacks.path;
    console_.write_message(
        flight_screen({stacks.problem.empty() ? line : line + " · " + stacks.problem}, ""));
}

void Reporter::show(const Event&, const StandstillOver& over) {
    console_.write_message(
        fmt::format("the job goes on, after {} without a step", format_duration(over.lasted)));
}

void Reporter::show(const Event&, const JobHung& hung) {
    stop_notice_.reset();
    countdown_.reset();
    progress_.restart();
    console_.set_status({});
    console_.write_message(failure_screen(hung, console_.style()));
}

void Reporter::show(const Event&, const StragglersSeen& seen) {
    console_.write_message(console_.style().yellow("the job is held up:") + "\n" +
                           flight_screen(seen.lines, ""));
}

void Reporter::show(const Event&, const JobEnded& job) {
    stop_notice_.reset();
    countdown_.reset();
    console_.set_status({});
    if (options_.quiet)
        return;
    const bool shown =
        !progress_changed_ && !console_.has_status_line();  // a status line is gone by now
    if (options_.progress && progress_.known() && !shown)
        console_.write_message(progress_.plain());
    show_ledger(job);
    console_.write_message(closing_line(job, job_.run_dir, console_.style()));
}

}  // namespace autolaunch::launcher
