#pragma once
#include "ledger/ledger_book.hpp"
#include "report/event.hpp"

namespace autolaunch::launcher {

/// What an event means for the ledger; most mean nothing. Pure.
void enter(LedgerBook& book, const Event& event);

}  // namespace autolaunch::launcher
