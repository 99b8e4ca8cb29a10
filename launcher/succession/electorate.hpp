#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace autolaunch::launcher {

/// An agent that may vote. One that was started again is another one, without the vote of the one
/// before: it has a fresh incarnation.
struct Voter {
    int node = 0;
    std::uint64_t incarnation = 0;
    bool operator==(const Voter&) const = default;
};

/// Who has voted. Each node counts once, as the incarnation that was heard first.
class Votes {
public:
    /// False: this node has voted before.
    bool add(const Voter& voter);
    bool contains(int node) const;
    void clear() { voters_.clear(); }
    /// In the order of nodes.
    std::span<const Voter> all() const { return voters_; }

private:
    std::vector<Voter> voters_;
};

/// Whose majority a record needs. Two majorities of one electorate have a vote in common, however
/// they came about: of an odd number more than half; of an even number half will do where the
/// casting vote is among them; of two with a witness, any two of the three.
struct Electorate {
    std::vector<Voter> voters;  ///< in the order of nodes, each once
    int casting = 0;            ///< the node whose vote decides in an even number: that of the head
    /// Of two: a file that one of them alone can create is the third vote, and nobody's is casting.
    bool has_witness = false;
    /// The generation since which these have been the voters: the file is of them, once and for
    /// all.
    int formed = 0;
    bool operator==(const Electorate&) const = default;

    const Voter* find(int node) const;
    bool contains(const Voter& voter) const;
    bool needs_witness() const { return has_witness && voters.size() == 2; }
};

/// Votes of others, and of other incarnations, do not count. Pure.
bool is_majority(const Electorate& electorate, const Votes& votes, bool witnessed);

}  // namespace autolaunch::launcher
