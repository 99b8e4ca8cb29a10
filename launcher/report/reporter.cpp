#include "report/reporter.hpp"

#include "report/banner.hpp"
#include "report/failure_screen.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

Reporter::Reporter(ReporterOptions options, Console& console)
    : options_(std::move(options)), console_(console) {
    if (!options_.events_path.empty())
        log_.emplace(options_.events_path, options_.secrets);
}

void Reporter::handle(const Event& event) {
    record(event);
    if (options_.only_records && !std::holds_alternative<HeadLost>(event.what))
        return;
    std::visit([this, &event](const auto& what) { show(event, what); }, event.what);
}

// A full disk takes events, and neither the job nor what its screen says.
void Reporter::record(const Event& event) {
    if (!log_)
        return;
    const EventLog::Outcome outcome = log_->append(event);
    if (outcome == EventLog::Outcome::lost_first && !told_of_loss_)
        say_of_record(fmt::format("events are not recorded: {}; the job goes on, make room there",
                                  log_->why_lost()));
    told_of_loss_ |= outcome == EventLog::Outcome::lost_first;
    if (std::holds_alternative<JobEnded>(event.what) && log_->lost() > 0)
        say_of_record(
            fmt::format("{} events are missing in {}", log_->lost(), log_->path().string()));
}

void Reporter::say_of_record(const std::string& text) {
    console_.write_message(fmt::format("{} {}", console_.style().yellow("warning:"), text));
}

void Reporter::tick(Clock::time_point now) {
    show_progress(now);
    if (!stop_notice_ || now - stop_notice_->since < kStopNoticeDelay)
        return;
    console_.write_message(stop_notice_->text);
    stop_notice_.reset();
}

void Reporter::show_progress(Clock::time_point now) {
    if (!options_.progress || !progress_changed_ || !progress_.known())
        return;
    if (console_.has_status_line()) {
        console_.set_status(progress_.line(console_.style().columns - 1));
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
    const bool is_restart = std::exchange(started_before_, true);
    if (!options_.quiet)
        console_.write_message(placement_line(job_, started, is_restart));
}

void Reporter::show(const Event&, const TimeLimitKnown& limit) {
    if (!options_.quiet)
        console_.write_message(fmt::format("  ends in   {}", format_duration(limit.left)));
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
    stop_notice_ = StopNotice{fmt::format("stopping all ranks: {}", stop.reason), Clock::now()};
}

void Reporter::show(const Event&, const GenerationFailed& failure) {
    stop_notice_.reset();
    progress_.restart();
    console_.set_status({});
    console_.write_message(failure_screen(failure, console_.style()));
}

void Reporter::show(const Event&, const NodeLost& lost) {
    stop_notice_.reset();
    progress_.restart();
    console_.set_status({});
    console_.write_message(failure_screen(lost, console_.style()));
}

void Reporter::show(const Event&, const HeadLost& lost) {
    console_.write_message(console_.style().red(fmt::format("✗ the head was lost: {}", lost.why)));
}

void Reporter::show(const Event&, const SpawnFailed& failure) {
    const std::string who =
        console_.style().red(fmt::format("✗ rank {} could not be started", failure.rank));
    console_.write_message(fmt::format("{}: {}", who, failure.what));
    if (!failure.hint.empty())
        console_.write_message("    " + failure.hint);
}

void Reporter::show(const Event&, const WarningRaised& warning) {
    console_.write_message(fmt::format("{} {}", console_.style().yellow("warning:"), warning.text));
}

void Reporter::show(const Event&, const FlightShown& flight) {
    console_.write_message("where the ranks are:\n" + flight_screen(flight.lines, flight.path));
}

void Reporter::show(const Event&, const JobEnded& job) {
    stop_notice_.reset();
    console_.set_status({});
    if (options_.quiet)
        return;
    const bool shown =
        !progress_changed_ && !console_.has_status_line();  // a status line is gone by now
    if (options_.progress && progress_.known() && !shown)
        console_.write_message(progress_.plain());
    console_.write_message(closing_line(job, job_.run_dir, console_.style()));
}

}  // namespace autolaunch::launcher
