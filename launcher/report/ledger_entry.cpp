#include "report/ledger_entry.hpp"

#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "report/parse_event.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <variant>

namespace autolaunch::launcher {

namespace {

using Time = LedgerBook::Time;

constexpr int kDeepestEvent = 16;

// One overload an event that counts.
void enter_one(LedgerBook& book, Time at, int generation, const JobStarted& job) {
    book.job_started(at, {.run_id = job.run_id,
                          .world_size = job.world_size,
                          .preparation = job.preparation,
                          .requeue = job.requeue,
                          .first_generation = generation});
}
void enter_one(LedgerBook& book, Time at, int generation, const GenerationStarted& started) {
    book.generation_started(at, generation, started.gpus);
}
void enter_one(LedgerBook& book, Time at, int, const QueueTimeKnown& queue) {
    book.queue_time_known(at, queue.waited);
}
void enter_one(LedgerBook& book, Time at, int, const StepReported& step) {
    book.step(at, step.rank, step.step, step.seconds);
}
void enter_one(LedgerBook& book, Time at, int, const CheckpointPublished& saved) {
    book.checkpoint(at, saved.step, saved.stall_seconds);
}
void enter_one(LedgerBook& book, Time at, int, const RankExited& end) {
    if (end.exit_code == 0 && !end.asked_to_stop)
        book.rank_finished(at);
    else
        book.last_seen(at);
}
void enter_one(LedgerBook& book, Time at, int, const StopRequested& stop) {
    if (stop.failed)
        book.failure_found(at, stop.detection);
    else
        book.last_seen(at);
}
void enter_one(LedgerBook& book, Time at, int generation, const GenerationFailed& failure) {
    book.generation_failed(at, generation, failure.restart_number.has_value());
}
void enter_one(LedgerBook& book, Time at, int generation, const NodeLost& lost) {
    book.generation_failed(at, generation, lost.goes_on);
}
void enter_one(LedgerBook& book, Time at, int generation, const JobHung& hung) {
    book.generation_failed(at, generation, hung.restart_number.has_value());
}
void enter_one(LedgerBook& book, Time at, int, const JobEnded& job) {
    book.job_ended(at, job.exit_code);
}
template <class Other>
void enter_one(LedgerBook& book, Time at, int, const Other&) {
    book.last_seen(at);
}

}  // namespace

void enter(LedgerBook& book, const Event& event) {
    const auto at = std::chrono::floor<std::chrono::milliseconds>(event.at);
    std::visit([&](const auto& what) { enter_one(book, at, event.generation, what); }, event.what);
}

std::optional<LedgerBook> book_of_events(const std::string& lines,
                                         std::chrono::system_clock::time_point before) {
    std::optional<LedgerBook> book;
    for (const std::string& line : split(lines, '\n')) {
        if (!nests_at_most(line, kDeepestEvent))
            continue;
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (json.is_discarded())
            continue;  // it was being written when its agent was killed
        try {
            const auto event = parse_event(json);
            if (!event || event->at + std::chrono::milliseconds(1) >= before)
                continue;
            if (!book)
                book.emplace();
            enter(*book, *event);
        } catch (const nlohmann::json::exception&) {
            continue;  // no event of ours
        }
    }
    return book;
}

}  // namespace autolaunch::launcher
