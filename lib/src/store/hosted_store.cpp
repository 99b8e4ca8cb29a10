#include "store/hosted_store.hpp"

#include <asio/post.hpp>
#include <future>
#include <memory>

namespace autolaunch {

HostedStore::~HostedStore() {
    context_.stop();
    thread_.join();
}

bool HostedStore::wait_until_unused(const Deadline& deadline) {
    constexpr std::chrono::milliseconds kStep{5};
    while (true) {
        const auto count = std::make_shared<std::promise<std::size_t>>();
        auto answer = count->get_future();
        asio::post(context_, [this, count] { count->set_value(server_.connection_count()); });
        if (answer.wait_until(deadline.at()) != std::future_status::ready)
            return false;
        if (answer.get() == 0)
            return true;
        if (deadline.passed())
            return false;
        std::this_thread::sleep_for(kStep);
    }
}

}  // namespace autolaunch
