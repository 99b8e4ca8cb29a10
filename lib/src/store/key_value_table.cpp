#include "store/key_value_table.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <utility>

namespace autolaunch::store {
namespace {
constexpr std::size_t kEntryOverheadBytes = 128;  // so that a flood of empty keys is bounded, too
constexpr std::size_t kWaitOverheadBytes = 256;   // of a key in both tables of who waits for what

// A key that is waited for is kept by its waiter and with those who wait for it.
std::size_t wait_bytes(const std::string& key) { return 2 * key.size() + kWaitOverheadBytes; }
}  // namespace

void KeyValueTable::charge(std::size_t added, std::size_t removed) {
    held_.resize(held_.bytes() - std::min(held_.bytes(), removed) + added);
}

std::string& KeyValueTable::slot(const std::string& key, std::size_t new_value_bytes) {
    const auto found = values_.find(key);
    if (found != values_.end()) {
        charge(new_value_bytes, found->second.size());
        return found->second;
    }
    charge(key.size() + new_value_bytes + kEntryOverheadBytes, 0);
    return values_[key];
}

bool KeyValueTable::exists(const std::string& key) const {
    return values_.count(key) > 0 || queue_length(key) > 0;
}

KeyValueTable::Waiters KeyValueTable::wake(const std::string& key) {
    Waiters woken;
    const auto waiting = waiting_for_.find(key);
    if (waiting == waiting_for_.end())
        return woken;
    for (const Waiter waiter : waiting->second) {
        const auto found = missing_of_.find(waiter);
        found->second.keys.erase(key);
        if (!found->second.keys.empty())
            continue;
        missing_of_.erase(found);
        woken.push_back(waiter);
    }
    waiting_for_.erase(waiting);
    return woken;
}

KeyValueTable::Waiters KeyValueTable::set(const std::string& key, std::string value) {
    slot(key, value.size()) = std::move(value);
    return wake(key);
}

KeyValueTable::Waiters KeyValueTable::append(const std::string& key, std::string_view value) {
    const std::string* held = find(key);
    slot(key, value.size() + (held != nullptr ? held->size() : 0)).append(value);
    return wake(key);
}

std::int64_t KeyValueTable::sum_of(const std::string& held, std::int64_t amount) {
    long long number = 0;
    long long sum = 0;
    if (!parse_integer(held, number) ||
        __builtin_add_overflow(number, static_cast<long long>(amount), &sum)) {
        throw Error(ErrorCode::corrupt, "add: the key does not hold a number that can be added to");
    }
    return sum;
}

KeyValueTable::Waiters KeyValueTable::add(const std::string& key, std::int64_t amount,
                                          std::int64_t& sum) {
    const std::string* held = find(key);
    sum = held != nullptr ? sum_of(*held, amount) : amount;
    return set(key, std::to_string(sum));
}

KeyValueTable::Waiters KeyValueTable::compare_set(const std::string& key,
                                                  const std::string& expected,
                                                  const std::string& desired, std::string& held) {
    const std::string* now = find(key);
    if (now == nullptr ? expected.empty() : *now == expected) {
        held = desired;
        return set(key, desired);
    }
    held = now != nullptr ? *now : expected;
    return {};
}

const std::string* KeyValueTable::find(const std::string& key) const {
    const auto found = values_.find(key);
    return found != values_.end() ? &found->second : nullptr;
}

bool KeyValueTable::has_all(const std::vector<std::string>& keys) const {
    return std::all_of(keys.begin(), keys.end(),
                       [this](const std::string& key) { return exists(key); });
}

bool KeyValueTable::erase(const std::string& key) {
    const auto found = values_.find(key);
    if (found == values_.end())
        return false;
    charge(0, key.size() + found->second.size() + kEntryOverheadBytes);
    values_.erase(found);
    return true;
}

bool KeyValueTable::wait(Waiter waiter, const std::vector<std::string>& keys) {
    cancel_wait(waiter);
    std::unordered_set<std::string> missing;
    for (const std::string& key : keys) {
        if (!exists(key))
            missing.insert(key);
    }
    if (missing.empty())
        return true;
    enlist(waiter, std::move(missing));
    return false;
}

/// Throws, and changes nothing, when there is no room for it.
void KeyValueTable::enlist(Waiter waiter, std::unordered_set<std::string> missing) {
    std::size_t bytes = 0;
    for (const std::string& key : missing)
        bytes += wait_bytes(key);
    Share held(budget_, Budget::Use::waits);
    held.resize(beyond_free(bytes));
    for (const std::string& key : missing)
        waiting_for_[key].push_back(waiter);
    missing_of_.emplace(waiter, Missing{std::move(missing), std::move(held)});
}

void KeyValueTable::cancel_wait(Waiter waiter) {
    const auto found = missing_of_.find(waiter);
    if (found == missing_of_.end())
        return;
    for (const std::string& key : found->second.keys) {
        auto& waiting = waiting_for_[key];
        waiting.erase(std::remove(waiting.begin(), waiting.end(), waiter), waiting.end());
        if (waiting.empty())
            waiting_for_.erase(key);
    }
    missing_of_.erase(found);
}

std::optional<std::uint64_t> KeyValueTable::watch(Waiter waiter, const std::string& key,
                                                  std::uint64_t after) {
    if (values_.count(key) > 0)
        return 0;
    const auto queue = queues_.find(key);
    if (queue != queues_.end() && queue->second.last_push > after)
        return queue->second.last_push;
    cancel_wait(waiter);
    enlist(waiter, {key});
    return std::nullopt;
}

KeyValueTable::Waiters KeyValueTable::wake_one(const std::string& key) {
    const auto waiting = waiting_for_.find(key);
    if (waiting == waiting_for_.end())
        return {};
    for (const Waiter waiter : waiting->second) {
        if (missing_of_.at(waiter).keys.size() > 1)
            continue;  // it waits for other keys, too
        cancel_wait(waiter);
        return {waiter};
    }
    return {};
}

KeyValueTable::Waiters KeyValueTable::queue_push(const std::string& key, std::string value) {
    const std::size_t key_bytes = queues_.contains(key) ? 0 : key.size() + kEntryOverheadBytes;
    charge(key_bytes + value.size() + kEntryOverheadBytes, 0);
    Queue& queue = queues_[key];
    queue.elements.push_back(std::move(value));
    queue.last_push = ++pushes_;
    return wake_one(key);
}

KeyValueTable::Waiters KeyValueTable::rouse(const std::string& key) {
    return queue_length(key) > 0 ? wake_one(key) : Waiters{};
}

std::optional<std::string> KeyValueTable::queue_pop(const std::string& key) {
    const auto found = queues_.find(key);
    if (found == queues_.end())
        return std::nullopt;
    auto& elements = found->second.elements;
    std::string value = std::move(elements.front());
    elements.pop_front();
    if (elements.empty()) {
        charge(0, key.size() + kEntryOverheadBytes);
        queues_.erase(found);
    }
    charge(0, value.size() + kEntryOverheadBytes);
    return value;
}

std::size_t KeyValueTable::queue_length(const std::string& key) const {
    const auto found = queues_.find(key);
    return found != queues_.end() ? found->second.elements.size() : 0;
}

bool KeyValueTable::barrier(Waiter waiter, const std::string& key, std::int64_t world_size,
                            Waiters& woken) {
    const std::string* held = find(key);
    const std::int64_t arrived = held != nullptr ? sum_of(*held, 1) : 1;
    const std::string count = std::to_string(arrived);
    slot(key, count.size()) = count;
    if (arrived >= world_size) {
        woken = wake(key);
        return true;
    }
    cancel_wait(waiter);
    enlist(waiter, {key});
    return false;
}

}  // namespace autolaunch::store
