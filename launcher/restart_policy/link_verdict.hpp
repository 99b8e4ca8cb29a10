#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What one node saw of its link to a neighbour in the ring of nodes that are looked at.
struct LinkSeen {
    int from = 0, to = 0;
    bool reached = true;
    std::uint64_t bytes = 0;    ///< of data that was sent; 0: none was
    std::uint64_t best_us = 0;  ///< that it took; 0: it did not all arrive
    std::uint64_t wrong = 0;    ///< bytes that arrived as others
    std::string problem = {};   ///< why it did not, or not all
};

struct LinkVerdict {
    std::map<int, std::string> out;  ///< nodes that the job should go on without, and why
    std::vector<std::string> lines;  ///< what else is to be said
};

/// How much longer than the fastest quarter of the links one takes that is called slow, and how
/// long at least.
inline constexpr std::uint64_t kSlowLink = 8, kSlowLink_us = 100'000;

/// A node with two neighbours that both have trouble with it is the faulty one. Of one link alone
/// neither end is proved faulty: where its data does not arrive, or not as it was sent, the node
/// goes that has no ranks (`has_ranks`), else the one with the higher number, and never the head's;
/// a link that is slow alone is told of. Pure.
LinkVerdict judge_links(const std::vector<LinkSeen>& links, int head,
                        const std::function<bool(int node)>& has_ranks,
                        const std::function<std::string(int node)>& name_of);

}  // namespace autolaunch::launcher
