#include "staging/retention.hpp"

#include "base/file_system.hpp"
#include "base/text.hpp"
#include "report/units.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

using OrderedJson = nlohmann::ordered_json;

// The next job goes on with it, if it is to come at all.
constexpr std::int64_t kUnfinished_s = 24 * 3600;

std::string time_text(std::int64_t seconds) {
    return format_duration(std::chrono::seconds(seconds));
}

std::string amount(const StageCache::Found& found) {
    return fmt::format("{} in {} file{}", format_bytes(static_cast<std::uint64_t>(found.bytes)),
                       found.files, found.files == 1 ? "" : "s");
}

std::string line_of(const StageCache::Found& found, const std::string& what,
                    const std::string& why) {
    const std::string of = found.is_part      ? "unfinished"
                           : found.of.empty() ? "of no source that is known"
                                              : join(found.of, ", ");
    return fmt::format("{:<13} {}  {}: {} ({})\n", what, found.name, of, amount(found), why);
}

}  // namespace

RetentionVerdict judge_retention(const StageCache::Found& found, std::int64_t now_s,
                                 std::chrono::seconds older_than) {
    if (found.is_held)
        return {false, found.is_part ? "it is being written" : "a job uses it"};
    if (!found.why_unreadable.empty())
        return {false, "it cannot be read: " + found.why_unreadable};
    const std::int64_t age = now_s - found.used_s;
    const std::int64_t keep = found.is_part      ? kUnfinished_s
                              : found.keep_s > 0 ? found.keep_s
                                                 : older_than.count();
    const std::string by = found.is_part      ? ""
                           : found.keep_s > 0 ? ", by storage.keep of its jobs"
                                              : "";
    if (age < 0)
        return {false, "it was used in the future, by this node's clock"};
    const std::string used = "used last " + time_text(age) + " ago, kept for " + time_text(keep);
    return {age > keep, used + by};
}

std::string collect_staged(const CollectRequest& request) {
    OrderedJson list = OrderedJson::array();
    std::string text;
    std::int64_t bytes = 0;
    int gone = 0;
    std::vector<StageCache::Found> all;
    if (is_folder(stage_folder(request.scratch) / "stage"))
        all = StageCache(request.scratch, 0).list();
    const std::int64_t now = std::time(nullptr);
    for (const StageCache::Found& found : all) {
        RetentionVerdict verdict = judge_retention(found, now, request.older_than);
        // Somebody may have begun to use it since.
        if (verdict.goes && request.apply && !StageCache(request.scratch, 0).remove(found.name))
            verdict = {false, "a job uses it"};
        bytes += verdict.goes ? found.bytes : 0;
        gone += verdict.goes ? 1 : 0;
        const char* const what = !verdict.goes ? "stays" : request.apply ? "removed" : "would go";
        text += line_of(found, what, verdict.why);
        list.push_back({{"name", found.name},
                        {"of", found.of},
                        {"unfinished", found.is_part},
                        {"bytes", found.bytes},
                        {"files", found.files},
                        {"used", found.used_s},
                        {"what", what},
                        {"why", verdict.why}});
    }
    if (request.json)
        return OrderedJson{{"scratch", request.scratch},
                           {"applied", request.apply},
                           {"bytes", bytes},
                           {"trees", list}}
                   .dump(2, ' ', false, OrderedJson::error_handler_t::replace) +
               "\n";
    const std::string sum = fmt::format("{} of {}, {}", gone, all.size(),
                                        format_bytes(static_cast<std::uint64_t>(bytes)));
    return text + (request.apply ? "removed " + sum + "\n"
                                 : "would remove " + sum +
                                       (gone > 0 ? "; autolaunch gc --apply does it\n" : "\n"));
}

}  // namespace autolaunch::launcher
