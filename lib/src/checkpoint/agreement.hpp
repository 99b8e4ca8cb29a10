#pragma once
#include <autolaunch/comm/communicator.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// Runs `action` on every rank and throws on every rank when it threw on any: the exception of the
/// lowest rank that failed, and there the very object. Collective. The action must not call
/// collectives, so that no rank waits for one that failed.
void together(Communicator& world, const std::function<void()>& action);

/// Throws Error{mismatch} with this text on every rank when the ranks' values differ. Collective.
void require_equal(Communicator& world, std::uint64_t value, const std::string& what);

/// root's text, on every rank. Collective.
std::string broadcast_text(Communicator& world, std::string text, int root);

// What texts cost, where `all` is the sum of them and 8 bytes a rank. Only an answer that is every
// rank's text takes `all` of each rank, and so the square of the job's size of the job: what rank 0
// can merge or choose goes by merge_texts().

/// Every rank's text, in rank order, on `root`; nothing on others. Collective. The root receives
/// `all`, by a tree: nobody hears from more than log2(size) ranks, for a GPU has memory for every
/// peer, and half of the ranks from none.
std::vector<std::string> gather_texts(Communicator& world, const std::string& text, int root);

/// What rank 0 makes of every rank's text, on every rank; an exception of `merge` too. Collective.
/// Rank 0 receives `all` as by gather_texts(), and everybody the result.
std::string merge_texts(
    Communicator& world, const std::string& text,
    const std::function<std::string(const std::vector<std::string>& texts)>& merge);

/// Every rank's text, in rank order, on every rank. Collective. Everybody receives `all`.
std::vector<std::string> exchange_texts(Communicator& world, const std::string& text);

/// The text of the rank that each rank names: `sources`, by rank, the same on all. Collective. A
/// rank receives that one text and everybody's length, and sends its own to those who named it.
std::string take_text(Communicator& world, const std::string& text, std::span<const int> sources);

}  // namespace autolaunch
