#pragma once
#include "retention/verdict.hpp"
#include "stage_cache/stage_cache.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Of what jobs have staged on this node: by what holds it, by how long ago it was used, and by
/// what the jobs that used it wanted; never by its name. What cannot be read stays. Pure.
RetentionVerdict judge_staged(const StageCache::Found& found, std::int64_t now_s,
                              std::chrono::seconds older_than);

struct LeftData {
    StageCache::Found found;
    RetentionVerdict verdict;
};

/// The same of the site's shared cache, by its owner.
std::vector<LeftData> collect_staged(const SharedPlace& place, std::int64_t now_s,
                                     std::chrono::seconds older_than, bool apply);

/// This user's, on this node; with `apply` what goes is removed. Throws ExitError 73 where the
/// folder cannot be used. Blocks: while files are removed.
std::vector<LeftData> collect_staged(const std::string& scratch, std::int64_t now_s,
                                     std::chrono::seconds older_than, bool apply);

}  // namespace autolaunch::launcher
