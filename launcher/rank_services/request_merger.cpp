#include "rank_services/request_merger.hpp"

#include "store/table_service.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher::store_relay {
namespace {

using store::Command;
using store::Request;
using store::WaitReply;

// A key that is waited for: with the client, by name and by ticket.
constexpr std::size_t kKeyCopies = 3, kWaitOverheadBytes = 384;
constexpr std::size_t kLongestGroupName = 4096;  // longer requests are not worth remembering

bool only_reads(Command command) {
    using enum Command;
    return command == get || command == check || command == multi_get || command == key_count ||
           command == queue_length || command == list_keys;
}

/// Equal for requests that may be answered together; empty when the request goes alone.
std::string group_name(const Request& request) {
    std::string name;
    if (request.command == Command::add)
        return "+" + request.keys.at(0);
    if (!only_reads(request.command))
        return name;
    std::size_t bytes = 0;
    for (const std::string& key : request.keys)
        bytes += key.size();
    if (bytes <= kLongestGroupName)
        store::append_request(name, request);
    return name;
}

}  // namespace

RequestMerger::Client RequestMerger::join() {
    const Client client = next_ticket_++;
    clients_.emplace(client, Waiting(budget_));
    return client;
}

void RequestMerger::leave(Client client) {
    end_wait(client);
    clients_.erase(client);
}

bool RequestMerger::busy(Client client) const {
    const auto found = clients_.find(client);
    return found != clients_.end() && found->second.busy;
}

void RequestMerger::request(Client client, Request&& request) {
    switch (request.command) {
        case Command::validate:
            return;
        case Command::ping: {
            std::string nonce;
            store::append_u32(nonce, static_cast<std::uint32_t>(request.number));
            return outlet_.reply(client, nonce);
        }
        case Command::wait:
            return wait(client, request.keys);
        case Command::cancel_wait:
            end_wait(client);
            return outlet_.reply(client, store::wait_reply(WaitReply::canceled));
        case Command::barrier:
            return barrier(client, std::move(request));
        default:
            break;
    }
    if (!store::has_reply(request.command))
        return outlet_.ask(Ask{client, std::move(request)});
    clients_.at(client).busy = true;
    const std::string name = group_name(request);
    if (name.empty())
        return send_alone(client, std::move(request));
    join_group(name, client, std::move(request));
}

// Waits.

void RequestMerger::wait(Client client, const std::vector<std::string>& keys) {
    end_wait(client);
    Waiting& waiting = clients_.at(client);
    std::size_t bytes = 0;
    for (const std::string& key : keys)
        bytes += kKeyCopies * key.size() + kWaitOverheadBytes;
    waiting.held.resize(store::beyond_free(bytes));
    for (const std::string& key : keys) {
        if (!waiting.missing.insert(key).second)
            continue;
        WatchedKey& watched = watched_[key];
        watched.clients.push_back(client);
        if (watched.ticket == 0)
            watch(key, 0, watched);
    }
    if (waiting.missing.empty())
        outlet_.reply(client, store::wait_reply(WaitReply::stop_waiting));
}

void RequestMerger::watch(const std::string& key, std::uint64_t after, WatchedKey& watched) {
    watched.ticket = next_ticket_++;
    watch_of_.emplace(watched.ticket, key);
    outlet_.ask(Watch{watched.ticket, after, key});
}

void RequestMerger::end_wait(Client client) {
    const auto found = clients_.find(client);
    if (found == clients_.end())
        return;
    Waiting& waiting = found->second;
    waiting.held.resize(0);
    for (const std::string& key : std::exchange(waiting.missing, {})) {
        WatchedKey& watched = watched_.at(key);
        std::erase(watched.clients, client);
        if (!watched.clients.empty())
            continue;
        outlet_.ask(Unwatch{watched.ticket, key});
        watch_of_.erase(watched.ticket);
        watched_.erase(key);
    }
    if (waiting.barrier == 0)
        return;
    outlet_.ask(Unwatch{waiting.barrier, std::exchange(waiting.barrier_key, {})});
    barrier_of_.erase(std::exchange(waiting.barrier, 0));
}

void RequestMerger::barrier(Client client, Request&& request) {
    end_wait(client);
    Waiting& waiting = clients_.at(client);
    waiting.barrier = next_ticket_++;
    waiting.barrier_key = request.keys.at(0);
    barrier_of_.emplace(waiting.barrier, client);
    outlet_.ask(Ask{waiting.barrier, std::move(request)});
}

void RequestMerger::count_down(Client client, const std::string& key) {
    Waiting& waiting = clients_.at(client);
    waiting.missing.erase(key);
    if (!waiting.missing.empty())
        return;
    waiting.held.resize(0);
    outlet_.reply(client, store::wait_reply(WaitReply::stop_waiting));
}

void RequestMerger::take_appeared(const Appeared& appeared) {
    const auto ticket = watch_of_.find(appeared.ticket);
    if (ticket == watch_of_.end())
        return;  // the Unwatch is under way
    const std::string key = std::move(ticket->second);
    watch_of_.erase(ticket);
    WatchedKey& watched = watched_.at(key);
    if (appeared.push == 0) {
        const std::vector<Client> clients = std::move(watched.clients);
        watched_.erase(key);
        for (const Client client : clients)
            count_down(client, key);
        return;
    }
    // One element serves one: rather who waits for nothing else.
    auto chosen =
        std::find_if(watched.clients.begin(), watched.clients.end(),
                     [this](Client client) { return clients_.at(client).missing.size() == 1; });
    if (chosen == watched.clients.end())
        chosen = watched.clients.begin();
    const Client client = *chosen;
    watched.clients.erase(chosen);
    if (watched.clients.empty()) {
        watched_.erase(key);
    } else {
        watch(key, appeared.push, watched);
    }
    count_down(client, key);
}

// Requests with a reply.

void RequestMerger::send_alone(Client client, Request&& request) {
    const std::uint64_t ticket = next_ticket_++;
    flights_.emplace(ticket, Flight{client, {}});
    outlet_.ask(Ask{ticket, std::move(request)});
}

void RequestMerger::join_group(const std::string& name, Client client, Request&& request) {
    const auto [group, is_new] = groups_.try_emplace(name);
    group->second.held.push_back({client, request.number});
    if (!is_new)
        return;
    group->second.request = std::move(request);
    send_group(name);
}

/// Sends those that are held, or forgets the group when there are none.
void RequestMerger::send_group(const std::string& name) {
    Group& group = groups_.at(name);
    const bool reads = only_reads(group.request.command);
    if (reads)
        std::erase_if(group.held,
                      [this](const Part& part) { return !clients_.contains(part.client); });
    std::int64_t sum = 0;
    auto end = group.held.begin();
    for (; end != group.held.end(); ++end) {
        if (group.one_at_a_time && end != group.held.begin())
            break;
        std::int64_t more = 0;
        if (__builtin_add_overflow(sum, end->amount, &more))
            break;
        sum = more;
    }
    if (group.held.empty()) {
        groups_.erase(name);
        return;
    }
    group.sent.assign(group.held.begin(), end);
    group.held.erase(group.held.begin(), end);
    if (!reads)
        group.request.number = sum;
    const std::uint64_t ticket = next_ticket_++;
    flights_.emplace(ticket, Flight{0, name});
    outlet_.ask(Ask{ticket, group.request});
}

void RequestMerger::settle(Client client, std::string_view reply) {
    const auto found = clients_.find(client);
    if (found == clients_.end())
        return;
    found->second.busy = false;
    outlet_.reply(client, reply);
}

void RequestMerger::take(Answer&& answer) {
    if (const auto* reply = std::get_if<Reply>(&answer))
        take_reply(*reply);
    if (const auto* appeared = std::get_if<Appeared>(&answer))
        take_appeared(*appeared);
    if (const auto* refused = std::get_if<Refused>(&answer))
        take_refused(refused->ticket);
}

void RequestMerger::take_reply(const Reply& reply) {
    const auto barrier = barrier_of_.find(reply.ticket);
    if (barrier != barrier_of_.end()) {
        Waiting& waiting = clients_.at(barrier->second);
        waiting.barrier = 0;
        outlet_.reply(barrier->second, reply.bytes);
        barrier_of_.erase(barrier);
        return;
    }
    const auto found = flights_.find(reply.ticket);
    if (found == flights_.end())
        return;
    const Flight flight = std::move(found->second);
    flights_.erase(found);
    if (flight.group.empty()) {
        settle(flight.client, reply.bytes);
    } else {
        take_group_reply(flight.group, reply);
    }
}

void RequestMerger::take_group_reply(const std::string& name, const Reply& reply) {
    Group& group = groups_.at(name);
    const std::vector<Part> parts = std::exchange(group.sent, {});
    if (group.request.command != Command::add) {
        for (const Part& part : parts)
            settle(part.client, reply.bytes);
    } else if (reply.bytes.size() == 8) {
        // As if the head had done them one after another, with nothing in between.
        std::uint64_t sum = store::load_le(reply.bytes.data(), 8);
        for (const Part& part : parts)
            sum -= static_cast<std::uint64_t>(part.amount);
        for (const Part& part : parts) {
            sum += static_cast<std::uint64_t>(part.amount);
            std::string bytes;
            store::append_u64(bytes, sum);
            settle(part.client, bytes);
        }
    } else {
        for (const Part& part : parts)
            outlet_.drop(part.client);
    }
    send_group(name);
}

void RequestMerger::take_refused(std::uint64_t ticket) {
    if (clients_.contains(ticket))
        return outlet_.drop(ticket);  // of a request without a reply
    const auto barrier = barrier_of_.find(ticket);
    if (barrier != barrier_of_.end())
        return outlet_.drop(Client(barrier->second));
    const auto watch = watch_of_.find(ticket);
    if (watch != watch_of_.end()) {
        const std::vector<Client> clients = watched_.at(watch->second).clients;
        for (const Client client : clients)
            outlet_.drop(client);
        return;
    }
    const auto found = flights_.find(ticket);
    if (found == flights_.end())
        return;
    const Flight flight = std::move(found->second);
    flights_.erase(found);
    if (flight.group.empty())
        return outlet_.drop(flight.client);
    refuse_group(flight.group);
}

/// Of several ADDs, a later one may be to blame: they are sent again one by one.
void RequestMerger::refuse_group(const std::string& name) {
    Group& group = groups_.at(name);
    std::vector<Part> parts = std::exchange(group.sent, {});
    if (group.request.command == Command::add && parts.size() > 1) {
        group.one_at_a_time = true;
        group.held.insert(group.held.begin(), parts.begin(), parts.end());
        parts.clear();
    }
    send_group(name);
    for (const Part& part : parts)
        outlet_.drop(part.client);
}

}  // namespace autolaunch::launcher::store_relay
