// One rank of tests/gpu/nccl.sh: backend nccl as a trainer gets it, through the session.
//
//   nccl_gpu CASE     a case of the suite, "streams" (GPU memory on CUDA streams), or "list" (the
//   suite's names)
//
// Prints "passed CASE"; exits with 77 where there is no GPU.
#include "../conformance/communicator_suite.hpp"
#include "../conformance/expect.hpp"
#include "comm/nccl/nccl_backend.hpp"
#include "no_gpu.hpp"

#include <autolaunch/session.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::conformance;

namespace {

/// A group's timeout is its initialisation's, too, and NCCL's takes seconds where processes share a
/// GPU.
constexpr std::chrono::milliseconds kInitialisation{5000};

bool is_run(const Case& test) { return test.needs == Needs::nothing; }

/// A number on each rank and index that every type holds.
float input(int rank, std::size_t index) {
    return static_cast<float>((static_cast<std::size_t>(rank) + index) % 3 + 1);
}

class Gpu {
public:
    explicit Gpu(int index) : device_(CudaDevice::open("libcuda.so.1", index)) {
        const CudaDevice::Current current(*device_);
        stream_ = device_->make_stream();
    }
    Stream stream() const { return Stream::cuda(device_->index(), stream_.get()); }
    std::shared_ptr<void> upload(const std::vector<float>& values) {
        const CudaDevice::Current current(*device_);
        auto memory = device_->allocate(values.size() * sizeof(float));
        device_->copy(memory.get(), values.data(), values.size() * sizeof(float), stream_.get());
        return memory;
    }
    std::vector<float> download(const void* memory, std::size_t count) {
        const CudaDevice::Current current(*device_);
        std::vector<float> values(count);
        device_->copy(values.data(), memory, count * sizeof(float), stream_.get());
        for (const auto event = device_->record(stream_.get()); !device_->is_over(event);) {
        }
        return values;
    }

private:
    std::shared_ptr<CudaDevice> device_;
    CudaDevice::Stream stream_;
};

/// Reductions on GPU memory, with our own kernels behind NCCL's, out of and in registered memory.
void streams(Communicator& comm, int gpu_index) {
    Gpu gpu(gpu_index);
    constexpr std::size_t kCount = 100'003;
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
        values[i] = input(comm.rank(), i);
    const auto send = gpu.upload(values);
    const CommunicatorBuffer recv = comm.allocate(kCount * sizeof(float));
    const auto check = [&](ReduceOp op, double factor, const char* what) {
        comm.all_reduce(send.get(), recv.data(), kCount, f32, op, gpu.stream()).wait();
        const auto got = gpu.download(recv.data(), kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
            float sum = 0;
            for (int rank = 0; rank < comm.size(); ++rank)
                sum += input(rank, i);
            expect(got[i] == static_cast<float>(sum * factor), what);
        }
    };
    check(ReduceOp::sum, 1, "sum");
    check(ReduceOp::pre_multiplied_sum(0.5), 0.5, "pre_multiplied_sum");
    comm.all_reduce(send.get(), recv.data(), kCount, f32, ReduceOp::avg, gpu.stream()).wait();
    const auto average = gpu.download(recv.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        float sum = 0;
        for (int rank = 0; rank < comm.size(); ++rank)
            sum += input(rank, i);
        expect(average[i] == sum / static_cast<float>(comm.size()), "avg");
    }
}

int run(const std::string& what) {
    Session session = Session::from_environment();
    CommunicatorOptions options{.backend = "nccl"};
    if (what == "streams") {
        Communicator comm = Communicator::world(session, options);
        const char* mask = std::getenv("CUDA_VISIBLE_DEVICES");
        streams(comm, mask != nullptr && std::string(mask).find(',') == std::string::npos
                          ? 0
                          : session.local_rank());
        std::printf("passed %s\n", what.c_str());
        return 0;
    }
    for (const Case& test : cases()) {
        if (test.name != what || !is_run(test) || session.world_size() < test.min_ranks)
            continue;
        options.timeout = std::max(test.timeout, kInitialisation);
        Communicator comm = Communicator::world(session, options);
        test.run(comm);
        std::printf("passed %s\n", what.c_str());
        return 0;
    }
    std::fprintf(stderr, "there is no case %s for %d ranks\n", what.c_str(), session.world_size());
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "list") {
        for (const Case& test : cases())
            if (is_run(test))
                std::printf("%s %d\n", std::string(test.name).c_str(), test.min_ranks);
        return 0;
    }
    skip_without_gpu();
    try {
        return run(what);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", what.c_str(), error.what());
        return 1;
    }
}
