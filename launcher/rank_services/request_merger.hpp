#pragma once
#include "rank_services/store_relay_protocol.hpp"
#include "store/budget.hpp"
#include "store/protocol.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace autolaunch::launcher::store_relay {

/// The clients of one relay and what they have asked: makes few questions to the head of many
/// requests, and the replies of many clients of few answers. Pure.
///
/// - Waits for a key are one Watch, whoever waits.
/// - Equal requests that only read, and ADDs to one key, go up one at a time; what comes meanwhile
/// goes up together
///   when the answer is there. So each is done at the head after it was asked, and nothing read is
///   stale.
/// - A client has one request under way, so each client's requests are done in its order.
///
/// Owner: StoreRelay. Threads: one. Blocks: never.
class RequestMerger {
public:
    using Client = std::uint64_t;

    class Outlet {
    public:
        virtual void ask(const Question& question) = 0;
        virtual void reply(Client client, std::string_view bytes) = 0;
        /// leave() may be called from within.
        virtual void drop(Client client) = 0;

    protected:
        ~Outlet() = default;
    };

    /// What clients wait for is charged to `budget`.
    RequestMerger(Outlet& outlet, std::shared_ptr<store::Budget> budget)
        : outlet_(outlet), budget_(std::move(budget)) {}

    Client join();
    void leave(Client client);
    /// A reply is under way to it: no request is taken now.
    bool busy(Client client) const;
    /// Throws Budget's error when there is no room for it; nothing of it is done then.
    void request(Client client, store::Request&& request);
    /// What the head says; answers to what nobody wants any more are nothing. Not Hangup.
    void take(Answer&& answer);

private:
    struct Waiting {
        explicit Waiting(const std::shared_ptr<store::Budget>& budget)
            : held(budget, store::Budget::Use::waits) {}

        store::Share held;  // for the keys that it waits for
        bool busy = false;
        std::unordered_set<std::string> missing;  // keys of its WAIT
        std::uint64_t barrier = 0;                // ticket of its BARRIER; 0: none
        std::string barrier_key;
    };
    struct WatchedKey {
        std::uint64_t ticket = 0;
        std::vector<Client> clients;  // in order of arrival
    };
    struct Part {
        Client client = 0;
        std::int64_t amount = 0;  // of an ADD
    };
    /// Requests that are answered together: those under way, and those that came meanwhile.
    struct Group {
        store::Request request;
        std::vector<Part> sent, held;
        bool one_at_a_time = false;  // several together were refused: who is to blame?
    };
    struct Flight {
        Client client = 0;
        std::string group;  // empty: of this client alone
    };

    void wait(Client client, const std::vector<std::string>& keys);
    void watch(const std::string& key, std::uint64_t after, WatchedKey& watched);
    void end_wait(Client client);
    void barrier(Client client, store::Request&& request);
    void send_alone(Client client, store::Request&& request);
    void join_group(const std::string& name, Client client, store::Request&& request);
    void send_group(const std::string& name);
    void settle(Client client, std::string_view reply);
    void count_down(Client client, const std::string& key);
    void take_reply(const Reply& reply);
    void take_group_reply(const std::string& name, const Reply& reply);
    void take_appeared(const Appeared& appeared);
    void take_refused(std::uint64_t ticket);
    void refuse_group(const std::string& name);

    Outlet& outlet_;
    std::shared_ptr<store::Budget> budget_;
    std::uint64_t next_ticket_ = 1;
    std::unordered_map<Client, Waiting> clients_;
    std::unordered_map<std::string, WatchedKey> watched_;
    std::unordered_map<std::uint64_t, std::string> watch_of_;  // ticket -> key
    std::unordered_map<std::uint64_t, Client> barrier_of_;     // ticket -> client
    std::unordered_map<std::uint64_t, Flight> flights_;        // ticket -> who
    std::unordered_map<std::string, Group> groups_;
};

}  // namespace autolaunch::launcher::store_relay
