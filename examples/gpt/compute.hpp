#pragma once
#include "cpu_math.hpp"
#include "cuda/cuda_module.hpp"
#include "network.hpp"
#include "thread_pool.hpp"
#include "throughput.hpp"
#include "trainer_config.hpp"

#include <autolaunch/fsdp/sharding.hpp>

#include <memory>
#include <string>

namespace gpt {

/// What a rank computes with: threads, or a GPU. On a GPU arithmetic is in bf16 where parameters
/// are, else in f32; on the CPU always in f32.
class Compute {
public:
    /// `local_rank` i takes the i-th GPU that it may see. Throws std::runtime_error when there is
    /// none.
    Compute(bool on_gpu, const autolaunch::fsdp::Precision& precision, int local_rank,
            int local_world_size);

    /// `recompute`: as Model has it.
    std::unique_ptr<Network> make_network(const ModelConfig& config,
                                          autolaunch::fsdp::ShardedModel& sharded, int recompute);
    std::string name() const;
    /// Of all ranks together; measured where no data sheet is known. Collective.
    Peak peak(autolaunch::Communicator& world);
    /// Bytes of activations and other memory of the computation.
    std::size_t allocated() const;
    autolaunch::Stream stream() const;

private:
    /// Calls `use` with the Math that computes.
    template <class Use>
    auto with_math(const Use& use) const {
        if (!cuda_)
            return use(static_cast<Math<float>&>(*cpu_));
        return bf16_ ? use(cuda_->bf16()) : use(cuda_->f32());
    }

    std::unique_ptr<CudaCompute> cuda_;
    std::unique_ptr<ThreadPool> pool_;
    std::unique_ptr<CpuMath<float>> cpu_;
    bool bf16_ = false;
};

}  // namespace gpt
