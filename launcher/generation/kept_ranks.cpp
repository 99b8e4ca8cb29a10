#include "generation/kept_ranks.hpp"

#include "spawn/process_tree.hpp"

#include <algorithm>
#include <csignal>
#include <vector>

namespace autolaunch::launcher {

void KeptRanks::end(Deadline deadline) {
    std::vector<pid_t> others = list_children();
    bool any = false;
    for (RankProcess& rank : processes) {
        if (!rank.alive())
            continue;
        any = true;
        rank.send(SIGKILL);
        others.erase(std::remove(others.begin(), others.end(), rank.pid()), others.end());
    }
    if (any)
        end_children(others, deadline);
    processes.clear();
}

void KeptRanks::end_fixed(Deadline deadline) {
    KeptRanks fixed;
    for (auto at = processes.begin(); at != processes.end();) {
        const auto rank = at++;
        if (!rank->renumbers())
            fixed.processes.splice(fixed.processes.end(), processes, rank);
    }
    fixed.end(deadline);
}

}  // namespace autolaunch::launcher
