#pragma once
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What is recorded. The words stand in the lines as they are here (docs/audit.md).
namespace audit_kind {
inline constexpr char kSubmit[] = "submit", kPolicy[] = "policy", kStart[] = "start",
                      kGrants[] = "grants", kKeyUse[] = "key_use", kAsked[] = "asked",
                      kWritten[] = "checkpoint_written", kRead[] = "checkpoint_read",
                      kExported[] = "checkpoint_exported", kDeleted[] = "checkpoint_deleted",
                      kEnd[] = "end";
// Of the trail itself: always there, whatever events_to_log says.
inline constexpr char kOpened[] = "opened", kRecovered[] = "recovered", kRotated[] = "rotated",
                      kExpired[] = "expired";
}  // namespace audit_kind

/// The kinds that a word of audit.events_to_log means: ours, or what people write for them
/// ("job_submission", "model_export"). Empty: none that we know of, such as "user_login".
std::vector<std::string_view> kinds_of_word(std::string_view word);

/// All that may be chosen.
std::span<const std::string_view> audit_kinds();

}  // namespace autolaunch::launcher
