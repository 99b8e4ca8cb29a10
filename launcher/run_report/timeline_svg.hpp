#pragma once
#include "run_report/run_record.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

// Pictures of a record, as SVG elements within a page, some with HTML about them. They stretch to
// its width and hold no text but titles: words beside them are HTML. Pure.

/// What the job did, from left to right, with failures and checkpoints below. Empty: nothing to
/// show.
std::string timeline_svg(const RunRecord& record);
/// A bar of the ledger's shares.
std::string ledger_svg(const Ledger& ledger);
/// Of what the ranks reported over time, with failures and an axis. Empty where there is nothing.
std::string pace_plot(const RunRecord& record);
std::string tokens_plot(const RunRecord& record);
std::string loss_plot(const RunRecord& record);
/// A bar a checkpoint: for how long it held training up.
std::string stalls_plot(const RunRecord& record);
/// A cell a rank, a row or more a node.
std::string ranks_svg(const RunRecord& record);

/// The moments below pictures whose width is the job's time.
std::string time_axis(const RunRecord& record);
/// "14:05:07", or with the day where the job took longer than one.
std::string axis_moment(const RunRecord& record, RecordTime at);
/// `height` of a picture that is kPictureWide wide.
std::string picture(double height, std::string_view label, const std::string& content,
                    std::string_view style);
std::string titled_rect(double x, double y, double width, double height, std::string_view style,
                        const std::string& title);
inline constexpr double kPictureWide = 1000;

}  // namespace autolaunch::launcher
