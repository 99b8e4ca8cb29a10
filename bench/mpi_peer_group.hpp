#pragma once
// The group to compare with: MPI's own blocking calls on MPI_COMM_WORLD, and nothing of ours.
#include "perf_group.hpp"

namespace autolaunch::bench {

/// Between MPI_Init and MPI_Finalize. MPI's errors end the job.
class MpiPeerGroup final : public PerfGroup {
public:
    MpiPeerGroup();

    std::string name() const override { return "MPI itself"; }
    int rank() const override { return rank_; }
    int size() const override { return size_; }
    PerfDevice& device() override { return device_; }
    std::string refusal(DataType type, std::optional<ReduceOp> op) const override;
    bool is_synchronous() const override { return true; }
    std::shared_ptr<void> allocate(std::size_t bytes) override;
    std::string allocation_name() const override { return "MPI_Alloc_mem()"; }
    void start(const std::vector<CollectiveCall>& calls) override;
    void begin_batch() override {}
    void finish_batch() override {}
    void wait() override {}
    void barrier() override;
    double reduce(double value, ReduceOp op) override;
    std::vector<std::string> gather(const std::string& text) override;

private:
    void start_one(const CollectiveCall& call);
    void reduce_to_root(const CollectiveCall& call);
    void reduce_scatter(const CollectiveCall& call);

    int rank_ = 0;
    int size_ = 1;
    HostDevice device_;
};

}  // namespace autolaunch::bench
