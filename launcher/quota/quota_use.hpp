#pragma once
#include "base/room_on_disk.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What `quota -u -w -p` and `lfs quota -u` print: a file system's name, and eight columns: KiB
/// that are used (with * or in brackets), quota, limit, grace, and the same of files. Lines of
/// anything else are passed over. Pure.
std::vector<QuotaUse> parse_quotas(std::string_view answer);

/// "92% of the 1.0 TB that you may have there are used", from `kQuotaWarnsAt` on; empty: less.
/// Pure.
std::string quota_words(const QuotaUse& use);
inline constexpr int kQuotaWarnsAt = 90;  ///< percent

}  // namespace autolaunch::launcher
