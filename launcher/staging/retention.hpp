#pragma once
#include "stage_cache/stage_cache.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace autolaunch::launcher {

/// What becomes of something in the cache, and why, in words.
struct RetentionVerdict {
    bool goes = false;
    std::string why;
};

/// By what holds it, by how long ago it was used, and by what the jobs that used it wanted; never
/// by its name. What cannot be read stays. Pure.
RetentionVerdict judge_retention(const StageCache::Found& found, std::int64_t now_s,
                                 std::chrono::seconds older_than);

struct CollectRequest {
    std::string scratch;
    std::chrono::seconds older_than{0};
    bool apply = false;
    bool json = false;
};

/// `autolaunch gc`: what of this user's staged data goes, on this node; with `apply` it goes. The
/// lines or the JSON, for stdout. Throws ExitError 73 where the folder cannot be used. Blocks:
/// while files are removed.
std::string collect_staged(const CollectRequest& request);

}  // namespace autolaunch::launcher
