#include "sweep/element_watch.hpp"

#include "base/owned_folder.hpp"

#include <autolaunch/error.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <map>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

constexpr auto kPause = std::chrono::seconds(5);  // between two writes of an undecided record
constexpr int kManyReports = 20;                  // without the metric: it will not come

}  // namespace

ElementWatch::ElementWatch(const SweepSpec& sweep, std::string run_dir, Callbacks callbacks)
    : sweep_(sweep), callbacks_(std::move(callbacks)) {
    record_.element = sweep.element.value_or(0);
    try {
        const auto text = OwnedFolder::open(sweep.of).read(element_record_file(record_.element),
                                                           kMostRecordBytes);
        if (auto before = parse_element_record(text.value_or("")))
            record_ = std::move(*before);
    } catch (const Error&) {  // begin() says what is wrong with the folder
    }
    record_.run_dir = std::move(run_dir);
    record_.array_job = sweep.array_job;
    record_.metric = name_of(sweep.goal.metric);
    record_.ended = false;
    record_.outcome.clear();
    record_.exit_code.reset();
    record_.stopped_early.clear();
}

void ElementWatch::begin() { write(); }

void ElementWatch::on_step(const StepMetrics& step, std::optional<std::int64_t> total_steps) {
    record_.total_steps = total_steps ? total_steps : record_.total_steps;
    const auto value = value_of(step, sweep_.goal.metric);
    if (!value) {
        if (++without_metric_ == kManyReports && record_.history.count == 0)
            warn_once(said_no_metric_,
                      fmt::format("this element of a sweep is judged by its {}, and {} reports of "
                                  "steps had none{}",
                                  record_.metric, kManyReports,
                                  sweep_.early_stop.rule == EarlyStopSpec::Rule::none
                                      ? ""
                                      : ": sweep.early_stop cannot compare it"));
        return;
    }
    const auto own = record_.history.take(sweep_.early_stop, step.step, *value);
    if (own)
        return look(*own);
    if (steady_clock::now() - written_at_ >= kPause)
        write();
}

/// The own record is there before the others' are read: of two that come to a mark at the same time
/// at least one sees the other.
void ElementWatch::look(const SweepLook& own) {
    write();
    if (record_.history.looks.size() == kMostLooks)
        warn_once(said_last_look_,
                  fmt::format("sweep.early_stop: {} looks are all that are kept, and this was the "
                              "last; a larger `every` makes fewer",
                              kMostLooks));
    std::vector<SweepLook> others;
    std::vector<std::string> unreadable;
    try {
        for (const auto& [number, record] : read_element_records(sweep_.of, unreadable))
            for (const SweepLook& theirs : record.history.looks)
                if (number != record_.element && theirs.mark == own.mark)
                    others.push_back(theirs);
    } catch (const Error& error) {
        unreadable.emplace_back(error.what());
    }
    if (!unreadable.empty())
        warn_once(said_cannot_read_, "sweep.early_stop: " + unreadable[0]);
    const std::string why = why_stop(sweep_.early_stop, own, others);
    if (why.empty() || !reason_.empty())
        return;
    reason_ = why;
    callbacks_.stop(why);
}

void ElementWatch::end(int exit_code, const std::string& outcome, bool stopped_early) {
    record_.ended = true;
    record_.exit_code = exit_code;
    record_.outcome = outcome;
    if (stopped_early)
        record_.stopped_early = reason_;
    write();
}

void ElementWatch::write() {
    written_at_ = steady_clock::now();
    record_.updated = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    try {
        OwnedFolder::open(sweep_.of).replace(element_record_file(record_.element),
                                             element_record_text(record_));
    } catch (const Error& error) {
        warn_once(said_cannot_write_,
                  std::string("what this element of a sweep does is not recorded, and the others "
                              "do not see it: ") +
                      error.what());
    }
}

void ElementWatch::warn_once(bool& said, const std::string& text) {
    if (!std::exchange(said, true))
        callbacks_.warn(text);
}

}  // namespace autolaunch::launcher
