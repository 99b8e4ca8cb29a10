#pragma once
#include "base/deadline.hpp"
#include "store/store_server.hpp"

#include <thread>

namespace autolaunch {

/// A StoreServer on a thread of its own, for a rank that serves the store itself.
///
/// Owner: the Session of rank 0. Threads: any, from one at a time. Blocks: the destructor, until
/// the thread has ended.
class HostedStore {
public:
    explicit HostedStore(const StoreServerOptions& options)
        : server_(context_, options), thread_([this] { run(); }) {}
    HostedStore(const HostedStore&) = delete;
    HostedStore& operator=(const HostedStore&) = delete;
    ~HostedStore();

    std::uint16_t port() const { return server_.port(); }
    /// Until nobody is connected, so that slower ranks can finish what they ask for. False when the
    /// deadline passed.
    bool wait_until_unused(const Deadline& deadline);

private:
    void run() { context_.run(); }

    asio::io_context context_{1};
    StoreServer server_;
    std::thread thread_;
};

}  // namespace autolaunch
