#include "compute.hpp"

namespace gpt {

Compute::Compute(bool on_gpu, const autolaunch::fsdp::Precision& precision, int local_rank,
                 int local_world_size) {
    if (!on_gpu) {
        pool_ = std::make_unique<ThreadPool>(default_thread_count(local_world_size));
        cpu_ = std::make_unique<CpuMath<float>>(*pool_);
        return;
    }
    cuda_ = load_cuda(local_rank % cuda_device_count());
    bf16_ = precision.param == autolaunch::bf16;
}

std::unique_ptr<Network> Compute::make_network(const ModelConfig& config,
                                               autolaunch::fsdp::ShardedModel& sharded,
                                               int recompute) {
    return with_math([&]<class T>(Math<T>& math) -> std::unique_ptr<Network> {
        return std::make_unique<NetworkOf<T>>(config, math, sharded, recompute);
    });
}

std::string Compute::name() const {
    return with_math(
        [&]<class T>(Math<T>& math) { return math.name() + (sizeof(T) == 2 ? " in bf16" : ""); });
}

Peak Compute::peak(autolaunch::Communicator& world) {
    return with_math([&]<class T>(Math<T>& math) { return peak_flops(math, world); });
}

std::size_t Compute::allocated() const {
    return with_math([]<class T>(Math<T>& math) { return math.allocated(); });
}

autolaunch::Stream Compute::stream() const {
    return with_math([]<class T>(Math<T>& math) { return math.stream(); });
}

}  // namespace gpt
