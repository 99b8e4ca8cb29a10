// Communicator::world: from the session's place in the job to a backend.
#include "comm/backend_choice.hpp"
#include "comm/gpu_place.hpp"
#include "comm/self/self_backend.hpp"
#include "comm/shm/shm_backend.hpp"
#include "session/flight_recorder.hpp"

#if AUTOLAUNCH_HAVE_MPI
#include "comm/mpi/mpi_backend.hpp"
#endif

#if AUTOLAUNCH_HAVE_NCCL_BACKEND
#include "comm/nccl/nccl_backend.hpp"
#endif

#include "session/environment.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace autolaunch {
namespace {

constexpr bool kMpiBuiltIn = AUTOLAUNCH_HAVE_MPI != 0;
constexpr bool kNcclBuiltIn = AUTOLAUNCH_HAVE_NCCL_BACKEND != 0;

// Every rank counts its own world() calls in the store, so the n-th call of one meets the n-th call of the others, and
// no process-wide counter is needed.
std::shared_ptr<CommunicatorBackend> make_shm(Session& session, std::chrono::milliseconds timeout) {
    Store& store = session.store();
    const std::int64_t call = store.add(fmt::format("comm/shm/calls/{}", session.rank()), 1);
    const std::string key = fmt::format("comm/shm/address/{}", call);
    const ShmRendezvous rendezvous{
        [&](const std::string& address) { store.set(key, address); },
        [&](std::chrono::milliseconds longest) { return store.get(key, longest); },
    };
    return ShmBackend::create(rendezvous, session.rank(), session.world_size(), timeout);
}

std::shared_ptr<CommunicatorBackend> make_mpi([[maybe_unused]] const RankInfo& info,
                                              [[maybe_unused]] std::chrono::milliseconds timeout) {
#if AUTOLAUNCH_HAVE_MPI
    MpiOptions options;
    options.timeout = timeout;
    auto backend = MpiBackend::world(options);
    // An MPI that does not recognise its launcher silently makes every process rank 0 of 1.
    if (backend->size() != info.world_size || backend->rank() != info.rank) {
        throw Error(ErrorCode::mismatch,
                    fmt::format("this is rank {} of {}, but MPI says rank {} of {}", info.rank, info.world_size,
                                backend->rank(), backend->size()),
                    "the ranks were not started through this MPI; use its own launcher or backend shm");
    }
    return backend;
#else
    return nullptr;  // choose_backend() has refused
#endif
}

GpuPlace gpu_of(const RankInfo& info) {
    return place_on_gpu(std::getenv(env::kCudaVisibleDevices), installed_gpus("/proc/driver/nvidia/gpus"), info);
}

std::shared_ptr<CommunicatorBackend> make_nccl([[maybe_unused]] Session& session,
                                               [[maybe_unused]] const CommunicatorOptions& options,
                                               [[maybe_unused]] const GpuPlace& gpu) {
#if AUTOLAUNCH_HAVE_NCCL_BACKEND
    if (options.fixed_order && session.world_size() > 1) {
        throw Error(ErrorCode::unsupported, "backend nccl reduces in the order that its algorithm has",
                    "leave fixed_order, or reduce on the CPU with backend \"cpu\"");
    }
    NcclOptions settings;
    settings.device_index = gpu.index;
    settings.timeout = options.timeout;
    const char* blocking = std::getenv(env::kNcclBlocking);
    settings.blocking = blocking != nullptr && std::string_view(blocking) == "1";
    if (session.world_size() == 1) return NcclBackend::create({}, "comm/nccl", 0, 1, settings);
    Store& store = session.store();
    const std::int64_t call = store.add(fmt::format("comm/nccl/calls/{}", session.rank()), 1);
    const NcclRendezvous rendezvous{
        [&store](const std::string& key, const std::string& value) { store.set(key, value); },
        [&store](const std::string& key, std::chrono::milliseconds longest) { return store.get(key, longest); },
        [&store](const std::string& key) { return store.check(std::span(&key, 1)); },
    };
    return NcclBackend::create(rendezvous, fmt::format("comm/nccl/{}", call), session.rank(), session.world_size(),
                               settings);
#else
    return nullptr;  // choose_backend() has refused
#endif
}

}  // namespace

Communicator Communicator::world(Session& session, const CommunicatorOptions& options) {
    if (options.timeout <= std::chrono::milliseconds::zero()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("the communicator's timeout is {} ms", options.timeout.count()),
                    "give a time above zero");
    }
    const auto record = [&](std::shared_ptr<CommunicatorBackend> backend) {
        auto recorder = session.flight_recorder();
        const std::string name = recorder ? recorder->name_world() : std::string();
        return Communicator(std::move(backend), std::move(recorder), name);
    };
    const GpuPlace gpu = gpu_of(session.info());
    switch (choose_backend(options.backend, session.info(), kMpiBuiltIn, {kNcclBuiltIn, gpu.is_own})) {
        case BackendChoice::nccl:
            return record(make_nccl(session, options, gpu));
        case BackendChoice::self:
            return record(std::make_shared<SelfBackend>());
        case BackendChoice::shm:
            return record(make_shm(session, options.timeout));
        case BackendChoice::mpi:
            return record(make_mpi(session.info(), options.timeout));
    }
    throw Error(ErrorCode::unsupported, "no backend was chosen");
}

}  // namespace autolaunch
