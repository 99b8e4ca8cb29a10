#pragma once
// Ranks of the shm backend, as threads of the test or as its children.
#include "../conformance/forked_ranks.hpp"
#include "comm/shm/shm_backend.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch::test {

/// Runs body(communicator) as rank 0 … size - 1, one thread each, and rethrows what the first rank
/// threw.
inline void run_thread_ranks(int size, const std::function<void(Communicator&)>& body,
                             std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    std::promise<std::string> address;
    const std::shared_future<std::string> published = address.get_future().share();
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                const ShmRendezvous rendezvous{
                    [&](const std::string& text) { address.set_value(text); },
                    [&](std::chrono::milliseconds) { return published.get(); }};
                Communicator comm(ShmBackend::create(rendezvous, rank, size, timeout));
                body(comm);
            } catch (...) {
                errors[static_cast<std::size_t>(rank)] = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    for (const std::exception_ptr& error : errors) {
        if (error)
            std::rethrow_exception(error);
    }
}

/// The same with processes; their wait statuses.
inline std::vector<int> run_process_ranks(
    int size, const std::function<void(Communicator&)>& body,
    std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    conformance::Broadcast address(size - 1);
    return conformance::run_forked_ranks(size, [&](int rank) {
        const ShmRendezvous rendezvous{
            [&](const std::string& text) { address.publish(text); },
            [&](std::chrono::milliseconds longest) { return address.fetch(longest); }};
        Communicator comm(ShmBackend::create(rendezvous, rank, size, timeout));
        body(comm);
    });
}

}  // namespace autolaunch::test
