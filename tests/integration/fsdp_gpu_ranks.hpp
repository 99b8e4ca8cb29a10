#pragma once
// Models cut over fake GPUs: forked ranks on backend nccl, and their computation on streams.
#include "fsdp_ranks.hpp"
#include "nccl_ranks.hpp"

#include <dlfcn.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::fsdp::testing {

/// One rank's GPU as its trainer uses it.
class Trainee {
public:
    Trainee(const std::string& library, int rank) : control_(fake_control(library)), rank_(rank) {
        device_ = CudaDevice::open(library, rank);
        const CudaDevice::Current current(*device_);
        stream_ = device_->make_stream();
        void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        launch_ = reinterpret_cast<Launch>(::dlsym(handle, "fake_gpu_launch"));
        expect(launch_ != nullptr, "the fake has launches");
    }

    Stream stream() const { return Stream::cuda(rank_, stream_.get()); }
    FakeGpuControl& control() const { return control_; }
    /// A kernel.
    void run(std::function<void()> work) const {
        launch_(
            stream_.get(),
            [](void* data) {
                const std::unique_ptr<std::function<void()>> own(
                    static_cast<std::function<void()>*>(data));
                (*own)();
            },
            new std::function<void()>(std::move(work)));
    }
    void synchronize() const {
        const CudaDevice::Current current(*device_);
        device_->wait(device_->record(stream_.get()), std::chrono::seconds(60));
    }
    Computation computation() const {
        return {stream(), [this](std::function<void()> work) { run(std::move(work)); },
                [this] { synchronize(); }};
    }

private:
    using Launch = void (*)(CUstream_st*, void (*)(void*), void*);
    FakeGpuControl& control_;
    int rank_;
    std::shared_ptr<CudaDevice> device_;
    CudaDevice::Stream stream_;
    Launch launch_ = nullptr;
};

/// Forks `size` ranks, each with a GPU; every one must succeed and leave nothing behind.
inline void on_gpus(int size, const std::function<void(Communicator&, Trainee&)>& body,
                    const std::string& library = FAKE_GPU,
                    std::chrono::seconds timeout = std::chrono::seconds(60)) {
    const FolderStore store;
    const auto statuses = conformance::run_forked_ranks(size, [&](int rank) {
        Trainee trainee(library, rank);
        FakeGpuControl& control = trainee.control();
        const int before = control.allocations;
        {
            Communicator world(NcclBackend::create(store.rendezvous(), "world", rank, size,
                                                   fake_options(library, rank, timeout)));
            body(world, trainee);
        }
        for (int i = 0; i < 1000 && (control.communicators != 0 || control.allocations != before);
             ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        expect(control.wrong_uses == 0, "NCCL is used as it wants to be");
        expect(control.communicators == 0 && control.registrations == 0,
               "nothing stays registered");
        expect(control.allocations == before, "no memory of the GPU stays");
    });
    for (const int status : statuses)
        CHECK(status == 0);
}

}  // namespace autolaunch::fsdp::testing
