#pragma once
#include "store/budget.hpp"
#include "store/protocol.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace autolaunch::store {

/// The store's state: keys, queues, and who waits for which key. Pure: it knows waiters by a number
/// and says whom to wake; the server does the talking. Every operation costs what it touches: a key
/// knows its waiters.
///
/// Owner: one server. Threads: none of its own, not synchronised. Blocks: never. Throws
/// Error{corrupt} for what no reply exists for (adding to what is no number), and Budget's error;
/// the server then drops the client.
class KeyValueTable {
public:
    using Waiter = std::uint64_t;
    using Waiters = std::vector<Waiter>;

    /// A table alone, with so many bytes for keys and values.
    explicit KeyValueTable(std::size_t limit_bytes)
        : KeyValueTable(std::make_shared<Budget>(2 * limit_bytes)) {}
    /// `budget` is shared with others that hold memory for the same store.
    explicit KeyValueTable(std::shared_ptr<Budget> budget)
        : budget_(std::move(budget)), held_(budget_, Budget::Use::table) {}

    Waiters set(const std::string& key, std::string value);
    Waiters append(const std::string& key, std::string_view value);
    /// `sum` becomes the number the key then holds.
    Waiters add(const std::string& key, std::int64_t amount, std::int64_t& sum);
    /// `held` becomes the reply: what the key then holds, or `expected` when the key is new and
    /// `expected` not empty.
    Waiters compare_set(const std::string& key, const std::string& expected,
                        const std::string& desired, std::string& held);
    /// nullptr when the key is missing. Valid until the next change.
    const std::string* find(const std::string& key) const;
    bool has_all(const std::vector<std::string>& keys) const;
    bool erase(const std::string& key);
    std::size_t key_count() const { return values_.size(); }
    const std::unordered_map<std::string, std::string>& values() const { return values_; }
    /// What keys and queues are charged with.
    std::size_t bytes() const { return held_.bytes(); }

    /// True when all keys exist already; otherwise `waiter` is woken once all have appeared. A new
    /// wait replaces an earlier one of the same waiter.
    bool wait(Waiter waiter, const std::vector<std::string>& keys);
    /// Also for a waiter that went away. Does nothing for who does not wait.
    void cancel_wait(Waiter waiter);

    /// 0 when the key exists; otherwise the number of the queue's last push when it is after
    /// `after` and the queue not empty. Nothing: `waiter` is woken once there is one of the two.
    std::optional<std::uint64_t> watch(Waiter waiter, const std::string& key, std::uint64_t after);

    /// Wakes the longest waiting one only: one element serves one.
    Waiters queue_push(const std::string& key, std::string value);
    /// How many pushes there were, to all queues: the number of the last one.
    std::uint64_t push_count() const { return pushes_; }
    /// Wakes the longest waiting one when the queue is not empty: who was woken before does not
    /// want the element.
    Waiters rouse(const std::string& key);
    std::optional<std::string> queue_pop(const std::string& key);
    std::size_t queue_length(const std::string& key) const;

    /// Counts the arrival at `key`. True when it was the last of world_size; `woken` are then the
    /// earlier ones.
    bool barrier(Waiter waiter, const std::string& key, std::int64_t world_size, Waiters& woken);

private:
    struct Queue {
        std::deque<std::string> elements;
        std::uint64_t last_push = 0;
    };

    std::string& slot(const std::string& key, std::size_t new_value_bytes);
    void charge(std::size_t added, std::size_t removed);
    void enlist(Waiter waiter, std::unordered_set<std::string> missing);
    bool exists(const std::string& key) const;
    Waiters wake(const std::string& key);
    Waiters wake_one(const std::string& key);
    static std::int64_t sum_of(const std::string& held, std::int64_t amount);

    /// What a waiter waits for, and what that is charged with.
    struct Missing {
        std::unordered_set<std::string> keys;
        Share held;
    };

    std::shared_ptr<Budget> budget_;
    Share held_;
    std::uint64_t pushes_ = 0;
    std::unordered_map<std::string, std::string> values_;
    std::unordered_map<std::string, Queue> queues_;
    std::unordered_map<std::string, std::vector<Waiter>> waiting_for_;  // in order of arrival
    std::unordered_map<Waiter, Missing> missing_of_;
};

}  // namespace autolaunch::store
