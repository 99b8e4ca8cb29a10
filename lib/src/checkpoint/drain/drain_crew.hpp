#pragma once
#include "base/deadline.hpp"
#include "checkpoint/drain/noticeboard.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch {

/// The drains of nodes that have directories of their own: the first one orders a checkpoint, each
/// copies the files that its node has and answers, and the first one publishes. Orders are numbered
/// from 0, an order and its answers are taken off the board when it is over. Owner: a Drain.
/// Threads: one. Blocks: wait_order() and collect(), until their deadline.
class DrainCrew {
public:
    /// `members` in all; `number` 0 is the first.
    DrainCrew(std::shared_ptr<Noticeboard> board, int number, int members);

    bool is_first() const noexcept { return number_ == 0; }

    struct Order {
        std::int64_t step = 0;
        std::uint64_t manifest_hash = 0;
        bool end = false;  ///< there will be no more
    };
    /// The first one's: asks the others.
    void order(const Order& what);
    /// The files that they have put there. Throws what a member failed with, after all have
    /// answered, and TimeoutError at the deadline; `stop` is asked about once a second.
    std::set<std::string> collect(const Deadline& deadline, const std::function<bool()>& stop);

    /// The others': the next order, within about a second; nothing when there is none yet.
    std::optional<Order> wait_order();
    void answer(const std::vector<std::string>& files_there);
    void answer_failure(const std::string& why);

private:
    std::string order_key() const;
    std::string answer_key(int member) const;

    std::shared_ptr<Noticeboard> board_;
    int number_, members_;
    std::int64_t next_ = 0;  ///< order to give or to wait for; while one goes on, the one after it
};

}  // namespace autolaunch
