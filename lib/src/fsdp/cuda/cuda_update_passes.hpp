#pragma once
#include "comm/nccl/cuda_device.hpp"
#include "fsdp/cuda/cuda_kernels.hpp"
#include "fsdp/optimizer/update_passes.hpp"
#include "fsdp/state_mirror.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::fsdp {

/// An optimizer on a GPU. The shards are cut into chunks once; a step uploads what is new in it (a
/// few kilobytes) and is one launch over all chunks, after the norm's:
///
///     squares -> carry -> all-reduce of 22 numbers -> scale -> update
///
/// The clip factor goes from scale to update in the GPU's memory. Where the host is to know the
/// norm it waits for scale alone, while the update runs; where a gradient is not finite and that
/// matters, update finds that and does nothing.
class CudaUpdatePasses final : public UpdatePasses {
public:
    CudaUpdatePasses(OptimizedModel& model, std::shared_ptr<CudaDevice> device,
                     std::unique_ptr<Algorithm> algorithm, const UpdateOptions& options);
    ~CudaUpdatePasses() override;

    double run(const StepPlan& plan) override;
    std::optional<NonFiniteGradient> find_non_finite() override;
    void append_state(State& state) override;
    void take_over_state() override;
    int threads() const noexcept override { return 0; }
    const std::vector<OptimizerShard*>& shards() const noexcept override { return shards_; }

private:
    struct ShardState {
        std::vector<CommunicatorBuffer>
            tensors;  // laid out as the shard, one for each of the algorithm's states
        std::uint8_t written = 0;
    };
    /// What a step uploads, at its places in one buffer.
    struct StepTable {
        std::size_t shards = 0, factors = 0, keys = 0, bytes = 0;  // the scale is at 0
    };
    /// Two are enough: the host is a step ahead of the GPU at most before it waits.
    struct Upload {
        CommunicatorBuffer memory;
        Fence copied;
    };

    void require_types();
    void cut(std::size_t shard, SettingsOfParameters& settings);
    void lay_out_table();
    void upload(const StepPlan& plan);
    void launch_norm(const StepPlan& plan);
    template <class T>
    const T* in_table(std::size_t offset) const {
        return reinterpret_cast<const T*>(static_cast<const std::byte*>(table_memory_.data()) +
                                          offset);
    }

    OptimizedModel& model_;
    std::shared_ptr<CudaDevice> device_;
    CudaKernels kernels_;
    std::vector<OptimizerShard*> shards_;
    std::unique_ptr<Algorithm> algorithm_;
    SettingsOfParameters settings_;
    std::uint64_t rounding_seed_;
    std::string kernel_;
    DataType gradient_type_ = DataType::f32;
    bool rounds_ = false;
    std::vector<ShardState> states_;          // by shard
    std::vector<std::uint64_t> name_hashes_;  // by run
    std::vector<UpdateChunk> chunks_;
    CommunicatorBuffer chunk_memory_, table_memory_, words_, sums_, returned_;
    StepTable table_;
    std::array<Upload, 2> uploads_;
    std::size_t turn_ = 0;
    CudaDevice::Stream side_;  // of what the host reads
    Fence last_step_;
    StateMirror mirror_;
};

}  // namespace autolaunch::fsdp
