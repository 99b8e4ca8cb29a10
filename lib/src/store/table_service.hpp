#pragma once
#include "store/backend.hpp"
#include "store/budget.hpp"
#include "store/key_value_table.hpp"
#include "store/protocol.hpp"

#include <autolaunch/export.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

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

    /// Keys below "/autolaunch/" are ours: with a `token`, only those below "/autolaunch/<token>/"
    /// exist for anybody, and nobody is told their names.
    explicit TableService(const Limits& limits, std::string token = {})
        : limits_(limits),
          budget_(std::make_shared<Budget>(limits.table_bytes)),
          table_(budget_),
          own_prefix_(token.empty() ? token : kOwnKeys + token + "/") {}

    Waiter enroll(Wake wake);
    /// Its wait is over, if it has one.
    void dismiss(Waiter waiter);
    /// The reply, as it goes to the client; empty when there is none, or not yet: a WAIT or
    /// BARRIER, of which `waiter` is told. Throws Error{corrupt} for what no reply exists for.
    /// Takes the request's values.
    std::string answer(Waiter waiter, Request& request);
    /// KeyValueTable's. Throws as answer().
    std::optional<std::uint64_t> watch(Waiter waiter, const std::string& key, std::uint64_t after) {
        check_key(key);
        return table_.watch(waiter, key, after);
    }
    void rouse(const std::string& key) { wake(table_.rouse(key), table_.push_count()); }

    const Limits& limits() const { return limits_; }
    const std::shared_ptr<Budget>& budget() const { return budget_; }
    std::size_t waiter_count() const { return wakes_.size(); }

private:
    std::string answer_one(Waiter waiter, Request& request);
    std::string answer_many(Waiter waiter, Request& request);
    std::string list_keys() const;
    void wake(const KeyValueTable::Waiters& waiters, std::uint64_t push = 0);

    void check_key(const std::string& key) const;
    bool is_hidden(const std::string& key) const;

    static constexpr char kOwnKeys[] = "/autolaunch/";

    Limits limits_;
    std::shared_ptr<Budget> budget_;
    KeyValueTable table_;
    std::string own_prefix_;  // empty: no key is special
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
