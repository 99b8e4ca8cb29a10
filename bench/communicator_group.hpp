#pragma once
// The group that the benches are about: a Communicator.
#include "perf_group.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <span>

namespace autolaunch::bench {

class CommunicatorGroup final : public PerfGroup {
public:
    CommunicatorGroup(Communicator communicator, std::unique_ptr<PerfDevice> device);

    std::string name() const override { return std::string(communicator_.backend()); }
    int rank() const override { return communicator_.rank(); }
    int size() const override { return communicator_.size(); }
    PerfDevice& device() override { return *device_; }
    bool is_synchronous() const override { return device_->stream().handle() == nullptr; }
    std::shared_ptr<void> allocate(std::size_t bytes) override;
    std::string allocation_name() const override { return "Communicator::allocate()"; }
    void start(const std::vector<CollectiveCall>& calls) override;
    void begin_batch() override;
    void finish_batch() override;
    void wait() override;
    void barrier() override { communicator_.barrier(); }
    double reduce(double value, ReduceOp op) override;
    std::vector<std::string> gather(const std::string& text) override;

private:
    static constexpr std::size_t kTextBytes = 256;

    Work start_one(const CollectiveCall& call, Stream stream);

    Communicator communicator_;
    std::unique_ptr<PerfDevice> device_;
    Stream stream_;
    bool in_batch_ = false;
    Work last_;
    std::shared_ptr<void> scratch_;  // kTextBytes, and as many of every rank
};

}  // namespace autolaunch::bench
