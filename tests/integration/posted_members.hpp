#pragma once
// Members of a job in one process, for tests of what speaks through them: what one relays, the
// event loop hands to the other, and reports are kept. A double of the transport and of nothing
// else; it drops what is of another generation, as the real one does.
#include "control/member.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::testing {

class PostedMembers {
public:
    PostedMembers(asio::io_context& io, int nodes) : io_(io) {
        for (int node = 0; node < nodes; ++node)
            members_.push_back(std::make_unique<One>(*this, node));
    }

    launcher::Member& operator[](int node) { return *members_.at(static_cast<std::size_t>(node)); }

    /// What the node has told its head, which is not there.
    const std::vector<launcher::control::Report>& reported_by(int node) { return reports_[node]; }

    struct Traffic {
        std::size_t messages = 0, bytes = 0;
    };
    /// What other nodes have sent to the node, and it to them.
    Traffic received_by(int node) const { return sum(&std::pair<int, int>::second, node); }
    Traffic sent_by(int node) const { return sum(&std::pair<int, int>::first, node); }

private:
    class One final : public launcher::Member {
    public:
        One(PostedMembers& all, int node) : all_(all), node_(node) {}
        void set_handlers(Handlers) override {}
        int node_rank() const override { return node_; }
        int node_count() const override { return static_cast<int>(all_.members_.size()); }
        void report(const launcher::control::Report& report) override {
            all_.reports_[node_].push_back(report);
        }
        void fence(int, const std::string&, const std::vector<int>&, std::string,
                   FenceHandler) override {
            no_part_of_this();
        }
        void relay(launcher::control::RelayChannel channel, int generation, int destination,
                   std::string bytes) override {
            all_.post(node_, destination, channel, generation, std::move(bytes));
        }
        void on_relay(launcher::control::RelayChannel channel, int generation,
                      RelayHandler handler) override {
            handlers_[{channel, generation}] = std::move(handler);
        }
        void begin_generation(int generation) override {
            std::erase_if(handlers_, [generation](const auto& entry) {
                return entry.first.second < generation;
            });
        }
        void deliver(launcher::control::RelayChannel channel, int generation, int source,
                     const std::string& bytes) {
            const auto found = handlers_.find({channel, generation});
            if (found == handlers_.end() || !found->second)
                return;
            const RelayHandler handler = found->second;  // may replace itself
            handler(source, bytes);
        }

    private:
        static void no_part_of_this() {
            throw std::logic_error("PostedMembers relays, and does nothing else");
        }

        PostedMembers& all_;
        int node_;
        std::map<std::pair<launcher::control::RelayChannel, int>, RelayHandler> handlers_;
    };

    void post(int source, int destination, launcher::control::RelayChannel channel, int generation,
              std::string bytes) {
        Traffic& traffic = traffic_[{source, destination}];
        ++traffic.messages;
        traffic.bytes += bytes.size();
        asio::post(io_,
                   [this, source, destination, channel, generation, message = std::move(bytes)] {
                       members_.at(static_cast<std::size_t>(destination))
                           ->deliver(channel, generation, source, message);
                   });
    }
    Traffic sum(int std::pair<int, int>::*end, int node) const {
        Traffic all;
        for (const auto& [ends, traffic] : traffic_) {
            if (ends.*end != node)
                continue;
            all.messages += traffic.messages;
            all.bytes += traffic.bytes;
        }
        return all;
    }

    asio::io_context& io_;
    std::vector<std::unique_ptr<One>> members_;
    std::map<std::pair<int, int>, Traffic> traffic_;
    std::map<int, std::vector<launcher::control::Report>> reports_;
};

}  // namespace autolaunch::testing
