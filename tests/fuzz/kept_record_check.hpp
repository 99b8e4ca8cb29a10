#pragma once
#include "causes/failure_evidence.hpp"
#include "ledger/ledger.hpp"
#include "report/ledger_entry.hpp"
#include "require.hpp"
#include "stopping/save_times.hpp"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

namespace kept_record {

using fuzz::require;

inline void check_figures(const Ledger& ledger) {
    require(std::isfinite(goodput(ledger)) && std::isfinite(share_used(ledger)));
    mean_time_to_failure(ledger);
    total_ms(ledger);
    ledger_line(ledger);
}

inline bool check_ledger(std::string_view bytes) {
    const auto ledger = parse_ledger(bytes);
    if (!ledger)
        return false;
    check_figures(*ledger);
    const std::string text = ledger_json(*ledger);
    const auto again = parse_ledger(text);
    require(again && ledger_json(*again) == text);
    return true;
}

/// The next start of a job goes on from these.
inline bool check_book(std::string_view bytes) {
    const auto now = std::chrono::system_clock::from_time_t(1'795'866'582);
    auto book = book_of_events(std::string(bytes), now);
    if (!book)
        return false;
    const Ledger ledger = book->ledger();
    check_figures(ledger);
    LedgerBook next(ledger);
    check_figures(next.ledger());
    const auto read = parse_ledger(ledger_json(ledger));
    require(read && ledger_json(*read) == ledger_json(ledger));
    return true;
}

}  // namespace kept_record

/// What earlier starts of a job and its ranks have left in its run directory, as anything:
/// ledger.json, save-times.json, the error file of torchelastic, and events that a ledger is made
/// of. It is written to read the same, or is nothing. Aborts where that is not so. How many of them
/// it is.
inline std::size_t check_kept_bytes(std::string_view bytes) {
    using namespace kept_record;
    std::size_t found = (check_ledger(bytes) ? 1 : 0) + (check_book(bytes) ? 1 : 0);
    const SaveTimes times = SaveTimes::parse(bytes);
    require(times.count() <= SaveTimes::kMost &&
            SaveTimes::parse(times.to_text()).count() == times.count());
    const SaveTimes again = SaveTimes::parse(times.to_text());
    require(times.drains().size() <= SaveTimes::kMostPlaces &&
            again.drains().size() == times.drains().size() &&
            again.last().has_value() == times.last().has_value());
    if (const auto p99 = times.p99())
        require(p99->count() >= 0);
    found += times.count() > 0 ? 1 : 0;
    if (const auto error = parse_error_file(bytes)) {
        require(error->message.size() <= 4 * bytes.size());
        ++found;
    }
    return found;
}

}  // namespace autolaunch::launcher
