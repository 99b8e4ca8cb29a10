#include "comm/hierarchical/hierarchical_backend.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>

namespace hierarchical_backend_test {

using namespace autolaunch;

namespace {

/// A part of two ranks whose calls pass until it is aborted.
class Part final : public CommunicatorBackend {
public:
    std::string_view name() const noexcept override { return "part"; }
    int rank() const noexcept override { return 0; }
    int size() const noexcept override { return 2; }
    DeviceType device_type() const noexcept override { return DeviceType::cpu; }
    Work start(const CollectiveCall&, Stream) override {
        barrier();
        return {};
    }
    Work start_group(std::span<const CollectiveCall>, Stream) override {
        barrier();
        return {};
    }
    void barrier() override { check(); }
    std::shared_ptr<CommunicatorBackend> split(int, int) override { return nullptr; }
    void abort(const std::string&) override { aborted_ = true; }
    CommunicatorStatus status() const override {
        return aborted_ ? CommunicatorStatus::aborted : CommunicatorStatus::ok;
    }
    std::string abort_reason() const override { return aborted_ ? "asked to stop" : ""; }

private:
    std::atomic<bool> aborted_{false};
};

}  // namespace

TEST_CASE("no call passes once the status has said aborted, whichever part has ended") {
    for (const bool world_ends : {true, false}) {
        CAPTURE(world_ends);
        const auto local = std::make_shared<Part>(), cross = std::make_shared<Part>(),
                   world = std::make_shared<Part>();
        HierarchicalBackend whole(local, cross, world, false);
        whole.barrier();
        CHECK(whole.status() == CommunicatorStatus::ok);
        (world_ends ? world : local)->abort("asked to stop");
        CHECK(whole.status() == CommunicatorStatus::aborted);
        CHECK_THROWS_WITH_AS(whole.barrier(), "the communicator was aborted: asked to stop",
                             AbortedError);
        CHECK(cross->status() == CommunicatorStatus::aborted);
    }
}

}  // namespace hierarchical_backend_test
