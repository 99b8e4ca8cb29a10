#include "ledger/ledger_book.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostMarks = 1024;
constexpr std::size_t kMostGaps = 32;
constexpr std::int64_t kLongestQueueMs = std::int64_t{1} << 40;
constexpr double kLongestSeconds = 1e9;  // a rank's word; a sum of such stays in 64 bits

std::int64_t milliseconds_of(double seconds) {
    if (!std::isfinite(seconds) || seconds <= 0)
        return 0;
    return static_cast<std::int64_t>(std::llround(std::min(seconds, kLongestSeconds) * 1000));
}

}  // namespace

// Without steps, what was counted as such is taken back: the next attempt may report some.
LedgerBook::LedgerBook(Ledger before) : kept_(std::move(before)) {
    if (!kept_.steps_reported) {
        silent_ = std::exchange(kept_.of(LedgerKind::steps), 0);
        silent_lost_ = std::exchange(kept_.of(LedgerKind::lost_work), 0);
    }
    now_ = kept_.ended_at;
    phase_ = kept_.attempts > 0 ? Phase::over : Phase::unknown;
    gauged_ = kept_.units > 0;
}

void LedgerBook::note_gap(std::string gap) {
    if (kept_.gaps.size() < kMostGaps)
        kept_.gaps.push_back(std::move(gap));
}

// Ranks that had finished before hold their GPUs.
int LedgerBook::working() const {
    if (world_size_ <= 0)
        return kept_.units;
    const auto idle = static_cast<std::int64_t>(kept_.units) * finished_ / world_size_;
    return kept_.units - static_cast<int>(std::min<std::int64_t>(idle, kept_.units));
}

std::int64_t& LedgerBook::running() { return phase_ == Phase::stepping ? steps_ : initialisation_; }

void LedgerBook::count(LedgerKind kind, std::int64_t ms, int units) {
    if (gauged_)
        kept_.of(kind) += ms * units;
    else
        ungauged_ms_.at(static_cast<std::size_t>(kind)) += ms;
}

void LedgerBook::gauge(int units) {
    if (gauged_ && units == kept_.units)
        return;
    kept_.units = units;
    gauged_ = true;
    for (std::size_t kind = 0; kind < kLedgerKinds; ++kind)
        kept_.unit_ms.at(kind) += std::exchange(ungauged_ms_.at(kind), 0) * units;
}

void LedgerBook::advance(Time at) {
    const std::int64_t ms = now_ ? std::max<std::int64_t>((at - *now_).count(), 0) : 0;
    now_ = at;
    if (ms == 0 || phase_ == Phase::unknown)
        return;
    kept_.wall_ms += ms;
    switch (phase_) {
        case Phase::unknown:
            return;
        case Phase::launch:
            return count(LedgerKind::launch, ms, kept_.units);
        case Phase::recovering:
            return count(LedgerKind::recovery, ms, kept_.units);
        case Phase::over:
            return count(LedgerKind::idle, ms, kept_.units);
        case Phase::initialising:
        case Phase::stepping:
            break;
    }
    kept_.running_ms += ms;
    running() += ms * working();
    count(LedgerKind::idle, ms, kept_.units - working());
}

// As much as is there and not yet spoken for.
void LedgerBook::move_from_running(LedgerKind to, std::int64_t unit_ms) {
    const std::int64_t moved = std::clamp<std::int64_t>(unit_ms, 0, running() - safe_);
    running() -= moved;
    kept_.of(to) += moved;
}

// Between two attempts: the scheduler's, where it says that it has requeued the job. A person who
// starts the same folder again has taken his time, and that was no queue.
void LedgerBook::pass_queue(Time at, const Start& start) {
    const bool requeued =
        start.requeue && *start.requeue > kept_.requeue.value_or(0) && start.run_id == kept_.run_id;
    const std::int64_t ms = now_ ? std::max<std::int64_t>((at - *now_).count(), 0) : 0;
    queue_counted_ = requeued;
    if (requeued) {
        kept_.wall_ms += ms;
        count(LedgerKind::queue, ms, kept_.units);
    } else {
        kept_.without_person = false;
        note_gap(fmt::format("{} s between two starts by hand are not counted", ms / 1000));
    }
    now_ = at;
}

void LedgerBook::job_started(Time at, const Start& start) {
    const Time began = at - std::max(start.preparation, Duration(0));
    close_unended();
    if (kept_.completed.value_or(false))
        *this = LedgerBook();  // another job in the folder of one that is done
    if (start.first_generation && kept_.attempts > 0 &&
        *start.first_generation > kept_.next_generation)
        note_gap(fmt::format("generations {} to {} are missing: their agent was killed",
                             kept_.next_generation, *start.first_generation - 1));
    queue_counted_ = false;
    if (kept_.attempts > 0)
        pass_queue(began, start);
    now_ = began;
    world_size_ = std::max(start.world_size, 1);
    kept_.run_id = start.run_id;
    kept_.requeue = start.requeue;
    kept_.completed.reset();
    kept_.ended_at.reset();
    ++kept_.attempts;
    phase_ = Phase::launch;
    advance(at);
}

void LedgerBook::queue_time_known(Time at, Duration waited) {
    advance(at);
    if (phase_ == Phase::unknown || std::exchange(queue_counted_, true))
        return;
    const std::int64_t ms = std::clamp<std::int64_t>(waited.count(), 0, kLongestQueueMs);
    kept_.wall_ms += ms;
    count(LedgerKind::queue, ms, kept_.units);
}

void LedgerBook::generation_started(Time at, int generation, int gpus) {
    advance(at);
    close_generation(false);
    kept_.unit = gpus > 0 ? "gpu" : "rank";
    gauge(gpus > 0 ? gpus : std::max(world_size_, 1));
    ++kept_.generations;
    kept_.next_generation = std::max(kept_.next_generation, generation + 1);
    generation_ = generation;
    finished_ = 0;
    rank_.reset();
    saved_step_.reset();
    phase_ = Phase::initialising;
}

// The first one began before it was reported.
void LedgerBook::step(Time at, int rank, std::int64_t step, std::optional<double> seconds) {
    if (rank_ && rank > *rank_)
        return;
    advance(at);
    if (!runs())
        return;
    rank_ = rank;
    kept_.steps_reported = true;
    if (phase_ == Phase::initialising) {
        const std::int64_t first =
            std::min(milliseconds_of(seconds.value_or(0)) * working(), initialisation_);
        initialisation_ -= first;
        steps_ += first;
        safe_ = 0;
        phase_ = Phase::stepping;
    }
    if (marks_.size() >= kMostMarks)
        for (auto mark = marks_.begin(); mark != marks_.end() && mark + 1 != marks_.end(); ++mark)
            mark = marks_.erase(mark);
    marks_.push_back({step, steps_});
}

// What was done after the step that is saved is not safe, though the checkpoint came later.
void LedgerBook::checkpoint(Time at, std::int64_t step, double stall_seconds) {
    advance(at);
    if (!runs())
        return;
    const std::int64_t stall = milliseconds_of(stall_seconds);
    const std::int64_t counted = saved_step_ == step ? saved_stall_ms_ : 0;
    const std::int64_t before = running();
    move_from_running(LedgerKind::checkpoint_stall,
                      std::max<std::int64_t>(stall - counted, 0) * working());
    const std::int64_t moved = before - running();
    saved_step_ = step;
    saved_stall_ms_ = std::max(stall, counted);
    std::int64_t safe = running();
    for (StepMark& mark : marks_) {
        if (mark.step == step)
            safe = mark.unit_ms;
        else if (mark.step > step)
            mark.unit_ms -= moved;
    }
    safe_ = std::clamp(safe, safe_, running());
    std::erase_if(marks_, [step](const StepMark& mark) { return mark.step < step; });
}

void LedgerBook::rank_finished(Time at) {
    advance(at);
    if (runs())
        ++finished_;
}

void LedgerBook::failure_found(Time at, Duration ago) {
    advance(at);
    if (!runs())
        return;
    move_from_running(LedgerKind::detection, ago.count() * working());
    phase_ = Phase::recovering;
}

void LedgerBook::generation_failed(Time at, int generation, bool again) {
    advance(at);
    if (generation_ == generation) {
        ++kept_.failures;
        close_generation(false);
    }
    if (phase_ != Phase::unknown)
        phase_ = again ? Phase::recovering : Phase::over;
}

void LedgerBook::close_generation(bool work_is_kept) {
    if (!generation_)
        return;
    const bool silent = marks_.empty() && !rank_;
    std::int64_t& work = silent ? initialisation_ : steps_;
    const std::int64_t lost = work_is_kept ? 0 : work - safe_;
    if (silent) {
        silent_ += work - lost;
        silent_lost_ += lost;
    } else {
        kept_.of(LedgerKind::initialisation) += initialisation_;
        kept_.of(LedgerKind::steps) += steps_ - lost;
        kept_.of(LedgerKind::lost_work) += lost;
    }
    initialisation_ = steps_ = safe_ = 0;
    marks_.clear();
    generation_.reset();
}

// Its agent was killed: what it did since its last checkpoint is gone.
void LedgerBook::close_unended() {
    if (phase_ == Phase::unknown || phase_ == Phase::over)
        return;
    if (generation_)
        ++kept_.failures;
    close_generation(false);
}

void LedgerBook::job_ended(Time at, int exit_code) {
    advance(at);
    close_generation(exit_code == 0);
    gauge(gauged_ ? kept_.units : std::max(world_size_, 1));
    kept_.completed = exit_code == 0;
    kept_.ended_at = at;
    phase_ = Phase::over;
}

Ledger LedgerBook::ledger() const {
    LedgerBook closed = *this;
    closed.close_generation(true);
    if (!closed.gauged_)
        closed.gauge(std::max(world_size_, 1));
    Ledger now = std::move(closed.kept_);
    const LedgerKind silent = now.steps_reported ? LedgerKind::initialisation : LedgerKind::steps;
    now.of(silent) += closed.silent_;
    now.of(now.steps_reported ? LedgerKind::initialisation : LedgerKind::lost_work) +=
        closed.silent_lost_;
    return now;
}

}  // namespace autolaunch::launcher
