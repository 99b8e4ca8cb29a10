#pragma once
#include "ledger/ledger_book.hpp"
#include "report/event.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// What an event means for the ledger; most mean nothing. Pure.
void enter(LedgerBook& book, const Event& event);

/// The ledger that the lines of an events.jsonl make, of events before that moment: an agent that
/// was killed has left none of its time. Nothing: there is no event. Pure.
std::optional<LedgerBook> book_of_events(const std::string& lines,
                                         std::chrono::system_clock::time_point before);

}  // namespace autolaunch::launcher
