#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A line and the ranks that printed it, sorted.
struct FoldedLine {
    std::vector<int> ranks;
    std::string text;
};

/// Folds lines that several ranks print alike into one.
///
/// Groups stand in the order of their first line. A rank's next line joins a group behind the
/// rank's last one, or makes a new group at the end; so a rank's own lines never change their
/// order. The first group is given when every rank has joined it, when those that have not can no
/// longer (they have gone past it, or ended), or after `window`. Pure: the clock is an argument.
/// Owner: LogFollower, one per stream.
class LineFolder {
public:
    using Time = std::chrono::steady_clock::time_point;

    static constexpr std::chrono::milliseconds kWindow{150};
    static constexpr std::size_t kMaxGroups = 512;  ///< more and the first is given early

    explicit LineFolder(std::chrono::milliseconds window = kWindow) : window_(window) {}

    /// A rank whose lines may come.
    void add_rank(int rank);
    /// No group waits for this rank any more. Lines of it may still come.
    void rank_ended(int rank);

    void add(int rank, std::string text, Time now, std::vector<FoldedLine>& folded);
    /// Appends the groups that need not wait any longer.
    void give(Time now, std::vector<FoldedLine>& folded);
    /// Appends all groups.
    void finish(std::vector<FoldedLine>& folded);

private:
    struct Group {
        std::string text;
        std::uint64_t hash = 0;
        std::uint64_t number = 0;
        std::vector<int> ranks;  // in the order they came
        Time first_at{};
    };

    bool may_grow(const Group& group) const;
    void give_first(std::vector<FoldedLine>& folded);

    std::chrono::milliseconds window_;
    std::deque<Group> groups_;
    std::uint64_t next_number_ = 1;
    std::map<int, std::uint64_t>
        last_group_;  // by rank: the number of the last group it joined; 0: none
    std::set<int> running_;
};

/// "[ranks 0-3,5 ×5]"; of a single rank "[node1 3]".
std::string fold_prefix(const std::vector<int>& ranks, const std::string& hostname);

}  // namespace autolaunch::launcher
