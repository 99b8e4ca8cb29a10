#pragma once
#include "ledger/ledger.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Keeps a job's ledger as its moments come, in their order; memory and time of each are bounded,
/// so that a job of weeks costs no more than one of minutes. The agent and `autolaunch report` use
/// the same: one while it happens, the other from events.jsonl.
///
/// Clocks may be set back: no time passes then, and what is counted stays.
///
/// Threads: one. Pure.
class LedgerBook {
public:
    using Time = std::chrono::sys_time<std::chrono::milliseconds>;
    using Duration = std::chrono::milliseconds;

    LedgerBook() = default;
    /// Goes on with what an earlier attempt of the job has kept.
    explicit LedgerBook(Ledger before);

    struct Start {
        std::string run_id;
        int world_size = 1;
        Duration preparation{0};                   ///< from the program's start until now
        std::optional<int> requeue = {};           ///< how often the scheduler has requeued the job
        std::optional<int> first_generation = {};  ///< where known: gaps show
    };
    void job_started(Time at, const Start& start);
    /// The scheduler had the job that long before this start. After a requeue it is known already.
    void queue_time_known(Time at, Duration waited);
    /// All ranks run. Without GPUs the unit is a rank.
    void generation_started(Time at, int generation, int gpus);
    void step(Time at, int rank, std::int64_t step, std::optional<double> seconds);
    void checkpoint(Time at, std::int64_t step, double stall_seconds);
    /// A rank of this generation ended as it should, while others may go on.
    void rank_finished(Time at);
    /// Ranks are being stopped, for one failed that long ago.
    void failure_found(Time at, Duration ago);
    /// Every rank has ended, or is lost; `again`: another generation follows.
    void generation_failed(Time at, int generation, bool again);
    void job_ended(Time at, int exit_code);
    /// Nothing is known of the job after this moment: it goes on, or was killed.
    void last_seen(Time at) { advance(at); }
    void note_gap(std::string gap);

    /// As it is at the last moment that came.
    Ledger ledger() const;

private:
    enum class Phase { unknown, launch, initialising, stepping, recovering, over };
    struct StepMark {
        std::int64_t step = 0;
        std::int64_t unit_ms = 0;  ///< of this generation's steps, when it was reported
    };

    void advance(Time at);
    void count(LedgerKind kind, std::int64_t ms, int units);
    void gauge(int units);
    void move_from_running(LedgerKind to, std::int64_t unit_ms);
    std::int64_t& running();
    int working() const;
    bool runs() const { return phase_ == Phase::initialising || phase_ == Phase::stepping; }
    void close_generation(bool work_is_kept);
    void close_unended();
    void pass_queue(Time at, const Start& start);

    Ledger kept_;
    Phase phase_ = Phase::unknown;
    std::optional<Time> now_;
    int world_size_ = 0;
    std::optional<int> generation_;  ///< that runs
    bool gauged_ = false;            ///< the number of units is known
    bool queue_counted_ = false;     ///< of this attempt
    std::array<std::int64_t, kLedgerKinds> ungauged_ms_{};
    int finished_ = 0;  ///< ranks of this generation
    // Of this generation, and not in kept_ yet: unit milliseconds.
    std::int64_t initialisation_ = 0, steps_ = 0;
    std::int64_t safe_ = 0;       ///< of steps_ (of initialisation_, where none is reported): saved
    std::deque<StepMark> marks_;  ///< since the newest checkpoint
    std::optional<int> rank_;     ///< whose steps count
    std::optional<std::int64_t> saved_step_;
    std::int64_t saved_stall_ms_ = 0;
    // Of generations without a step: what they are depends on whether any other has one.
    std::int64_t silent_ = 0, silent_lost_ = 0;
};

}  // namespace autolaunch::launcher
