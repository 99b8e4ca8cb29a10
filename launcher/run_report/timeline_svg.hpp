#pragma once
#include "run_report/run_record.hpp"

#include <string>

namespace autolaunch::launcher {

// Pictures of a record, as SVG elements within a page. They stretch to its width and hold no text
// but titles: words beside them are HTML. Pure.

/// What the job did, from left to right, with failures and checkpoints below. Empty: nothing to
/// show.
std::string timeline_svg(const RunRecord& record);
/// A bar of the ledger's shares.
std::string ledger_svg(const Ledger& ledger);
/// Steps a second over time.
std::string pace_svg(const RunRecord& record);
/// Loss over time; empty where there is none.
std::string loss_svg(const RunRecord& record);
/// A cell a rank, a row or more a node.
std::string ranks_svg(const RunRecord& record);

}  // namespace autolaunch::launcher
