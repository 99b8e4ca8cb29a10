#pragma once
// The store of a job on several nodes, in one process: the head's server and a relay for each other
// node, on an event loop in a thread of its own.
#include "posted_members.hpp"
#include "rank_services/store_relay.hpp"
#include "rank_services/store_relay_head.hpp"
#include "store/store_server.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace autolaunch::testing {

/// `Members` is the way between the nodes.
template <class Members>
class BasicStoreNodes {
public:
    explicit BasicStoreNodes(int nodes, const StoreServerOptions& options = {})
        : members_(io_, nodes), options_(options) {
        open(0);
        thread_ = std::thread([this] { io_.run(); });
    }
    BasicStoreNodes(const BasicStoreNodes&) = delete;
    BasicStoreNodes& operator=(const BasicStoreNodes&) = delete;
    ~BasicStoreNodes() {
        on_loop([this] {
            relays_.clear();
            desk_.reset();
            head_.reset();
            return 0;
        });
        work_.reset();
        io_.stop();
        thread_.join();
    }

    /// Of the head's server (node 0), or of a relay.
    std::uint16_t port(int node) {
        return on_loop([&] { return node == 0 ? head_->port() : relay(node)->port(); });
    }
    std::size_t connection_count(int node) {
        return on_loop([&] {
            return node == 0 ? head_->connection_count() : relay(node)->connection_count();
        });
    }
    /// Everybody who could be woken: clients of the head's server, and what relays wait for.
    std::size_t waiter_count() {
        return on_loop([this] { return head_->table()->waiter_count(); });
    }
    PostedMembers::Traffic to_head() {
        return on_loop([this] { return members_.received_by(0); });
    }
    PostedMembers::Traffic from_head() {
        return on_loop([this] { return members_.sent_by(0); });
    }
    void send_raw(int from, const std::string& bytes) {
        on_loop([&] {
            members_[from].relay(launcher::control::RelayChannel::store, generation_, 0, bytes);
            return 0;
        });
    }
    /// What the head sends to a node whose relay has ended.
    void take_raw(int node, std::string& into) {
        on_loop([&] {
            members_[node].on_relay(
                launcher::control::RelayChannel::store, generation_,
                [&into](int, std::string_view bytes) { into.append(bytes.substr(4)); });
            return 0;
        });
    }
    void end_relay(int node) {
        on_loop([&] {
            relay(node).reset();
            return 0;
        });
    }
    void forget(int node) {
        on_loop([&] {
            desk_->forget(node);
            return 0;
        });
    }
    /// Everything anew, as the agents do.
    void next_generation() {
        on_loop([this] {
            for (int node = 0; node < members_[0].node_count(); ++node)
                members_[node].begin_generation(generation_ + 1);
            relays_.clear();
            desk_.reset();
            open(generation_ + 1);
            return 0;
        });
    }

    /// Runs the function while the event loop stands still: all that it sends arrives at once.
    template <class Function>
    void while_stopped(Function function) {
        std::promise<void> stopped;
        std::promise<void> go_on;
        asio::post(io_, [&] {
            stopped.set_value();
            go_on.get_future().wait();
        });
        stopped.get_future().wait();
        function();
        go_on.set_value();
        on_loop([] { return 0; });  // until the promises are done with
    }

    template <class Function>
    auto on_loop(Function function) -> decltype(function()) {
        std::packaged_task<decltype(function())()> task(std::move(function));
        auto result = task.get_future();
        asio::post(io_, [&task] { task(); });
        return result.get();
    }

private:
    std::unique_ptr<launcher::StoreRelay>& relay(int node) {
        return relays_.at(static_cast<std::size_t>(node) - 1);
    }
    void open(int generation) {
        generation_ = generation;
        head_ = std::make_unique<StoreServer>(io_, options_);
        desk_ = std::make_unique<launcher::StoreRelayHead>(io_, members_[0], generation,
                                                           head_->table());
        for (int node = 1; node < members_[0].node_count(); ++node)
            relays_.push_back(
                std::make_unique<launcher::StoreRelay>(io_, members_[node], generation, options_));
    }

    asio::io_context io_{1};
    asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
    Members members_;
    StoreServerOptions options_;
    int generation_ = 0;
    std::unique_ptr<StoreServer> head_;
    std::unique_ptr<launcher::StoreRelayHead> desk_;
    std::vector<std::unique_ptr<launcher::StoreRelay>> relays_;
    std::thread thread_;
};
using StoreNodes = BasicStoreNodes<PostedMembers>;

}  // namespace autolaunch::testing
