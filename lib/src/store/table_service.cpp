#include "store/table_service.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch::store {
namespace {

std::string number_reply(std::uint64_t number) {
    std::string out;
    append_u64(out, number);
    return out;
}

}  // namespace

std::string wait_reply(WaitReply reply) { return std::string(1, static_cast<char>(reply)); }

TableService::Waiter TableService::enroll(Wake wake) {
    const Waiter waiter = next_waiter_++;
    wakes_.emplace(waiter, std::make_shared<const Wake>(std::move(wake)));
    return waiter;
}

void TableService::dismiss(Waiter waiter) {
    table_.cancel_wait(waiter);
    wakes_.erase(waiter);
}

void TableService::wake(const KeyValueTable::Waiters& waiters, std::uint64_t push) {
    for (const Waiter waiter : waiters) {
        const auto found = wakes_.find(waiter);
        if (found == wakes_.end())
            continue;
        const auto call = found->second;  // may dismiss itself
        (*call)(waiter, push);
    }
}

// The time that it takes says nothing of where a guess is wrong.
void TableService::check_key(const std::string& key) const {
    if (!is_hidden(key))
        return;
    unsigned differences = key.size() < own_prefix_.size() ? 1 : 0;
    for (std::size_t i = 0; i < own_prefix_.size(); ++i)
        differences |= static_cast<unsigned char>(own_prefix_[i] ^ key[i % key.size()]);
    if (differences != 0)
        throw Error(ErrorCode::corrupt, "the key is of autolaunch, and lacks its token");
}

bool TableService::is_hidden(const std::string& key) const {
    return !own_prefix_.empty() && key.starts_with(kOwnKeys);
}

std::string TableService::answer(Waiter waiter, Request& request) {
    for (const std::string& key : request.keys)
        check_key(key);
    switch (request.command) {
        case Command::wait:
        case Command::check:
        case Command::get:
        case Command::multi_get:
        case Command::multi_set:
        case Command::list_keys:
            return answer_many(waiter, request);
        default:
            return answer_one(waiter, request);
    }
}

/// The commands about one key, or none.
std::string TableService::answer_one(Waiter waiter, Request& request) {
    std::int64_t sum = 0;
    std::string out;
    KeyValueTable::Waiters woken;
    switch (request.command) {
        case Command::set:
            wake(table_.set(request.keys[0], std::move(request.values[0])));
            return {};
        case Command::append:
            wake(table_.append(request.keys[0], request.values[0]));
            return {};
        case Command::queue_push:
            woken = table_.queue_push(request.keys[0], std::move(request.values[0]));
            wake(woken, table_.push_count());
            return {};
        case Command::queue_pop:
            append_u64(out, table_.queue_length(request.keys[0]));
            if (const auto element = table_.queue_pop(request.keys[0]))
                append_bytes(out, *element);
            return out;
        case Command::compare_set: {
            std::string held;
            wake(table_.compare_set(request.keys[0], request.values[0], request.values[1], held));
            append_bytes(out, held);
            return out;
        }
        case Command::add:
            wake(table_.add(request.keys[0], request.number, sum));
            return number_reply(static_cast<std::uint64_t>(sum));
        case Command::key_count:
            return number_reply(table_.key_count());
        case Command::delete_key:
            return number_reply(table_.erase(request.keys[0]) ? 1 : 0);
        case Command::queue_length:
            return number_reply(table_.queue_length(request.keys[0]));
        case Command::cancel_wait:
            table_.cancel_wait(waiter);
            return wait_reply(WaitReply::canceled);
        case Command::ping:
            append_u32(out, static_cast<std::uint32_t>(request.number));
            return out;
        case Command::barrier:
            if (!table_.barrier(waiter, request.keys[0], request.number, woken))
                return {};
            wake(woken);
            return wait_reply(WaitReply::stop_waiting);
        default:
            return {};
    }
}

/// The commands about any number of keys, or whose reply holds any number of values.
std::string TableService::answer_many(Waiter waiter, Request& request) {
    std::string out;
    if (request.command == Command::wait) {
        if (table_.wait(waiter, request.keys))
            out = wait_reply(WaitReply::stop_waiting);
    } else if (request.command == Command::check) {
        const auto reply = table_.has_all(request.keys) ? CheckReply::ready : CheckReply::not_ready;
        append_u8(out, static_cast<std::uint8_t>(reply));
    } else if (request.command == Command::list_keys) {
        return list_keys();
    } else if (request.command == Command::multi_set) {
        for (std::size_t i = 0; i < request.keys.size(); ++i) {
            wake(table_.set(request.keys[i], std::move(request.values[i])));
        }
    } else {  // get, multi_get
        for (const std::string& key : request.keys) {
            const std::string* value = table_.find(key);
            append_bytes(out, value != nullptr ? std::string_view(*value) : std::string_view());
            if (out.size() > limits_.reply_bytes)
                throw Error(ErrorCode::corrupt, "the reply is too large");
        }
    }
    return out;
}

std::string TableService::list_keys() const {
    std::string out;
    std::uint64_t count = 0;
    for (const auto& entry : table_.values()) {
        if (is_hidden(entry.first))
            continue;
        ++count;
        append_bytes(out, entry.first);
        if (out.size() > limits_.reply_bytes)
            throw Error(ErrorCode::corrupt, "the reply is too large");
    }
    return number_reply(count) + out;
}

Backend::Client TableBackend::join() {
    return table_->enroll([this](TableService::Waiter client, std::uint64_t) {
        server_->reply(client, wait_reply(WaitReply::stop_waiting));
    });
}

void TableBackend::request(Client client, Request&& request) {
    const std::string reply = table_->answer(client, request);
    if (!reply.empty())
        server_->reply(client, reply);
}

}  // namespace autolaunch::store
