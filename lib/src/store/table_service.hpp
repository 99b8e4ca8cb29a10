#pragma once
#include "store/backend.hpp"
#include "store/key_value_table.hpp"
#include "store/protocol.hpp"

#include <autolaunch/export.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace autolaunch::store {

/// What each request does to the one table of a job, and who is told when what it waits for has
/// come. It knows no sockets: clients that are connected here and those behind a relay use the same
/// table through it.
///
/// Owner: shared by the servers and relays of a job. Threads: one. Blocks: never.
class AUTOLAUNCH_API TableService {
public:
    using Waiter = KeyValueTable::Waiter;
    /// `push` is 0 when a key appeared, else the number of the push to a queue. May enroll and
    /// dismiss anybody.
    using Wake = std::function<void(Waiter waiter, std::uint64_t push)>;

    explicit TableService(const Limits& limits) : limits_(limits), table_(limits.table_bytes) {}

    Waiter enroll(Wake wake);
    /// Its wait is over, if it has one.
    void dismiss(Waiter waiter);
    /// The reply, as it goes to the client; empty when there is none, or not yet: a WAIT or
    /// BARRIER, of which `waiter` is told. Throws Error{corrupt} for what no reply exists for.
    /// Takes the request's values.
    std::string answer(Waiter waiter, Request& request);
    /// KeyValueTable's.
    std::optional<std::uint64_t> watch(Waiter waiter, const std::string& key, std::uint64_t after) {
        return table_.watch(waiter, key, after);
    }
    void rouse(const std::string& key) { wake(table_.rouse(key), table_.push_count()); }

    const Limits& limits() const { return limits_; }
    std::size_t waiter_count() const { return wakes_.size(); }

private:
    std::string answer_one(Waiter waiter, Request& request);
    std::string answer_many(Waiter waiter, Request& request);
    std::string list_keys() const;
    void wake(const KeyValueTable::Waiters& waiters, std::uint64_t push = 0);

    Limits limits_;
    KeyValueTable table_;
    std::unordered_map<Waiter, std::shared_ptr<const Wake>> wakes_;
    Waiter next_waiter_ = 1;
};

/// The clients of one server on a table.
///
/// Owner: the server. Threads: the table's one. Blocks: never.
class TableBackend final : public Backend {
public:
    explicit TableBackend(std::shared_ptr<TableService> table) : table_(std::move(table)) {}

    void attach(Server* server) override { server_ = server; }
    Client join() override;
    void leave(Client client) override { table_->dismiss(client); }
    bool takes_request_of(Client) const override { return true; }
    void request(Client client, Request&& request) override;

private:
    std::shared_ptr<TableService> table_;
    Server* server_ = nullptr;
};

/// The reply to a WAIT, BARRIER or CANCEL_WAIT.
AUTOLAUNCH_API std::string wait_reply(WaitReply reply);

}  // namespace autolaunch::store
