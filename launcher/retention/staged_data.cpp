#include "retention/staged_data.hpp"

#include "base/file_system.hpp"

#include <utility>

namespace autolaunch::launcher {

namespace {

// The next job goes on with it, if it is to come at all.
constexpr std::chrono::seconds kUnfinished = std::chrono::hours(24);

}  // namespace

RetentionVerdict judge_staged(const StageCache::Found& found, std::int64_t now_s,
                              std::chrono::seconds older_than) {
    if (found.is_held)
        return {false, found.is_part ? "it is being written" : "a job uses it"};
    if (!found.why_unreadable.empty())
        return {false, "it cannot be read: " + found.why_unreadable};
    const std::chrono::seconds told(found.keep_s);
    const bool by_its_jobs = !found.is_part && found.keep_s > 0;
    RetentionVerdict verdict = judge_age("used last", std::chrono::seconds(now_s - found.used_s),
                                         found.is_part ? kUnfinished
                                         : by_its_jobs ? told
                                                       : older_than);
    if (by_its_jobs)
        verdict.why += ", by storage.keep of its jobs";
    return verdict;
}

namespace {

std::vector<LeftData> collect_of(StageCache& cache, std::int64_t now_s,
                                 std::chrono::seconds older_than, bool apply) {
    std::vector<LeftData> left;
    for (StageCache::Found& found : cache.list()) {
        RetentionVerdict verdict = judge_staged(found, now_s, older_than);
        // Somebody may have begun to use it since.
        if (verdict.goes && apply && !cache.remove(found.name))
            verdict = {false, "a job uses it"};
        left.push_back({std::move(found), std::move(verdict)});
    }
    return left;
}

}  // namespace

std::vector<LeftData> collect_staged(const std::string& scratch, std::int64_t now_s,
                                     std::chrono::seconds older_than, bool apply) {
    if (!is_folder(stage_folder(scratch) / "stage"))
        return {};
    StageCache cache(scratch, 0);
    return collect_of(cache, now_s, older_than, apply);
}

std::vector<LeftData> collect_staged(const SharedPlace& place, std::int64_t now_s,
                                     std::chrono::seconds older_than, bool apply) {
    StageCache cache(place, 0);
    return collect_of(cache, now_s, older_than, apply);
}

}  // namespace autolaunch::launcher
