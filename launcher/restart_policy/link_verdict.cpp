#include "restart_policy/link_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

struct Trouble {
    bool is_slow_alone = true;
    std::string what;  ///< "node1 does not reach node2"
};
using Pair = std::pair<int, int>;  // the smaller number first

double mib_per_s(const LinkSeen& link) {
    return static_cast<double>(link.bytes) / 1.048576 / static_cast<double>(link.best_us);
}

// The time of a link of the fastest quarter: one node that is slow both ways makes two slow links
// of three.
std::uint64_t usual_us(const std::vector<LinkSeen>& links) {
    std::vector<std::uint64_t> times;
    for (const LinkSeen& link : links)
        if (link.best_us > 0)
            times.push_back(link.best_us);
    if (times.size() < 3)
        return 0;
    std::sort(times.begin(), times.end());
    return times[times.size() / 4];
}

// Empty: none. `usual` 0: there is nothing to compare with.
Trouble trouble_of(const LinkSeen& link, std::uint64_t usual, const std::string& from,
                   const std::string& to) {
    if (!link.reached)
        return {false, fmt::format("{} does not reach {}", from, to)};
    if (link.wrong > 0)
        return {false, fmt::format("of data from {} to {} {} bytes arrived as others", from, to,
                                   link.wrong)};
    const bool is_slow =
        usual > 0 && link.best_us > kSlowLink_us && link.best_us > kSlowLink * usual;
    if (is_slow)
        return {true, fmt::format(
                          "{} sends to {} with {:.1f} MiB/s, others with {:.0f}", from, to,
                          mib_per_s(link),
                          static_cast<double>(link.bytes) / 1.048576 / static_cast<double>(usual))};
    if (link.bytes > 0 && link.best_us == 0 && usual > 0)
        return {true, fmt::format("{} cannot send data to {}: {}", from, to, link.problem)};
    return {true, {}};
}

std::map<Pair, Trouble> troubles_of(std::vector<LinkSeen> links,
                                    const std::function<std::string(int)>& name_of) {
    const std::uint64_t usual = usual_us(links);
    std::sort(links.begin(), links.end(), [](const LinkSeen& a, const LinkSeen& b) {
        return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
    std::map<Pair, Trouble> troubles;
    for (const LinkSeen& link : links) {
        Trouble found = trouble_of(link, usual, name_of(link.from), name_of(link.to));
        if (found.what.empty())
            continue;
        Trouble& known = troubles[std::minmax(link.from, link.to)];
        if (known.what.empty())
            known = std::move(found);
        else if (known.is_slow_alone && !found.is_slow_alone)
            known = std::move(found);
    }
    return troubles;
}

// That node has trouble with two others; -1: none has.
int in_two(const std::map<Pair, Trouble>& troubles, int head) {
    std::map<int, int> count;
    for (const auto& [pair, trouble] : troubles)
        ++count[pair.first], ++count[pair.second];
    const auto most =
        std::max_element(count.begin(), count.end(), [&](const auto& a, const auto& b) {
            return std::pair(a.first == head ? 0 : a.second, a.first) <
                   std::pair(b.first == head ? 0 : b.second, b.first);
        });
    return most != count.end() && most->first != head && most->second > 1 ? most->first : -1;
}

}  // namespace

LinkVerdict judge_links(const std::vector<LinkSeen>& links, int head,
                        const std::function<bool(int node)>& has_ranks,
                        const std::function<std::string(int node)>& name_of) {
    LinkVerdict verdict;
    std::map<Pair, Trouble> troubles = troubles_of(links, name_of);
    for (int node = in_two(troubles, head); node >= 0; node = in_two(troubles, head)) {
        std::string why;
        for (auto at = troubles.begin(); at != troubles.end();) {
            const bool is_its = at->first.first == node || at->first.second == node;
            if (is_its)
                why += (why.empty() ? "" : ", and ") + at->second.what;
            at = is_its ? troubles.erase(at) : std::next(at);
        }
        verdict.out.emplace(node, why);
    }
    for (const auto& [pair, trouble] : troubles) {
        if (trouble.is_slow_alone) {
            verdict.lines.push_back(trouble.what + "; which of the two it is, is not known");
            continue;
        }
        const auto [low, high] = pair;
        const int out =
            high == head || (low != head && !has_ranks(low) && has_ranks(high)) ? low : high;
        verdict.out.emplace(out,
                            fmt::format("{}; neither is proved faulty, and {}", trouble.what,
                                        low == head || high == head ? "the other is the head's"
                                        : has_ranks(low) == has_ranks(high) ? "it came later"
                                                                            : "it has no ranks"));
    }
    return verdict;
}

}  // namespace autolaunch::launcher
