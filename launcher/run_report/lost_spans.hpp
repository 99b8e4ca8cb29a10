#pragma once
#include "run_report/run_record.hpp"

namespace autolaunch::launcher {

/// Turns the steps before each failure, from the last checkpoint on, into lost work, as the ledger
/// counts it: there it is known how much, here about when. Spans are in the order of time.
void mark_lost_work(RunRecord& record);

}  // namespace autolaunch::launcher
