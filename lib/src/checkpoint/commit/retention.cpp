#include "checkpoint/commit/retention.hpp"

#include <algorithm>
#include <cmath>

namespace autolaunch {

namespace {

struct Rated {
    std::string name;
    double metric = 0;
};

}  // namespace

std::vector<std::string> no_longer_kept(
    const std::vector<KeptCheckpoint>& checkpoints, const CheckpointOptions& options,
    std::int64_t just_saved, const std::function<LookedAt(const KeptCheckpoint&)>& look) {
    std::vector<std::string> going;
    std::vector<Rated> rated;  // newest first
    int complete = 0;
    for (const KeptCheckpoint& item : checkpoints) {
        if (item.step == just_saved) {
            ++complete;
        } else if (options.keep_every > 0 && item.step % options.keep_every == 0) {
            // Kept whatever it is; and not counted, so that it need not be read.
        } else {
            const LookedAt found = look(item);
            const double metric = found.metric.value_or(std::nan(""));
            if (complete < options.keep)
                complete += found.state == LookedAt::complete ? 1 : 0;
            else if (found.state == LookedAt::unknown)
                continue;
            else if (options.keep_best > 0 && !std::isnan(metric))
                rated.push_back({item.name, options.lower_is_better ? metric : -metric});
            else
                going.push_back(item.name);
        }
    }
    std::stable_sort(rated.begin(), rated.end(),
                     [](const Rated& a, const Rated& b) { return a.metric < b.metric; });
    for (std::size_t i = static_cast<std::size_t>(options.keep_best); i < rated.size(); ++i)
        going.push_back(rated[i].name);
    return going;
}

}  // namespace autolaunch
