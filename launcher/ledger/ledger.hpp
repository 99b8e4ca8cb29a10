#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What a GPU of the job (a rank, where there are no GPUs) did, or waited for. docs/ledger.md.
enum class LedgerKind {
    queue,             ///< the scheduler had the job, and it had no nodes
    launch,            ///< from the program's start until all ranks run
    initialisation,    ///< ranks run, and the first step has not begun
    steps,             ///< steps that count
    checkpoint_stall,  ///< training stood still for a checkpoint
    detection,         ///< something had failed, and nobody knew it
    recovery,          ///< ranks were stopped and started again
    lost_work,         ///< steps that were done again, or are gone
    idle,              ///< this rank had ended, and others went on; or nothing ran any more
};
inline constexpr std::size_t kLedgerKinds = 9;

/// "checkpoint_stall": as in ledger.json.
const char* ledger_key(LedgerKind kind);
/// "checkpoint stall": for people.
const char* ledger_words(LedgerKind kind);

/// A job's time, in milliseconds of a unit: unit_ms sums to wall_ms times the units, exactly, as
/// long as their number stays the same.
struct Ledger {
    std::string unit = "rank";  ///< or "gpu"
    int units = 0;              ///< of the newest generation
    std::array<std::int64_t, kLedgerKinds> unit_ms{};
    std::int64_t wall_ms = 0;
    std::int64_t running_ms = 0;    ///< of it ranks ran
    int attempts = 0;               ///< starts of autolaunch: one, and one for each requeue
    int generations = 0;            ///< that ran
    int failures = 0;               ///< of generations
    bool steps_reported = false;    ///< false: running time counts as steps, for nobody said more
    std::optional<bool> completed;  ///< nothing: it goes on, or its end was not recorded
    bool without_person = true;     ///< nobody had to start it again
    std::vector<std::string> gaps = {};  ///< what is not counted, and why; a sentence each
    // What the next attempt goes on from.
    std::string run_id = {};
    std::optional<int> requeue = {};  ///< how often the scheduler had requeued it, where it says so
    std::optional<std::chrono::sys_time<std::chrono::milliseconds>> ended_at = {};
    int next_generation = 0;

    std::int64_t& of(LedgerKind kind) { return unit_ms.at(static_cast<std::size_t>(kind)); }
    std::int64_t of(LedgerKind kind) const { return unit_ms.at(static_cast<std::size_t>(kind)); }
};

std::int64_t total_ms(const Ledger& ledger);
/// Of the time that the job had its nodes: in steps that count. 0 where it had none.
double goodput(const Ledger& ledger);
/// The same, in steps, whether they count or not.
double share_used(const Ledger& ledger);
/// Running time over failures; nothing without a failure.
std::optional<std::chrono::milliseconds> mean_time_to_failure(const Ledger& ledger);

/// "81% steps · 12% initialisation · 5% lost work · 2% recovery · goodput 81%": the largest first,
/// and none below half a percent.
std::string ledger_line(const Ledger& ledger);

/// The text of ledger.json, and back; nothing for what is no ledger of this version. docs/ledger.md
/// has the keys.
std::string ledger_json(const Ledger& ledger);
std::optional<Ledger> parse_ledger(std::string_view text);

}  // namespace autolaunch::launcher
