// Communicator::world: from the session's place in the job to a backend.
#include "comm/backend_choice.hpp"
#include "comm/comparing_backend.hpp"
#include "comm/gpu_place.hpp"
#include "comm/hierarchical/hierarchical_backend.hpp"
#include "comm/hierarchical/node_plan.hpp"
#include "comm/self/self_backend.hpp"
#include "comm/shm/shm_backend.hpp"
#include "flight/flight_recorder.hpp"

#if AUTOLAUNCH_HAVE_MPI
#include "comm/mpi/mpi_backend.hpp"
#endif

#if AUTOLAUNCH_HAVE_NCCL_BACKEND
#include "comm/nccl/nccl_backend.hpp"
#endif

#include "session/environment.hpp"
#include "session/generation_watch.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch {
namespace {

using WatchPtr = std::shared_ptr<GenerationWatch>;
using StorePtr = std::shared_ptr<Store>;

constexpr bool kMpiBuiltIn = AUTOLAUNCH_HAVE_MPI != 0;
constexpr bool kNcclBuiltIn = AUTOLAUNCH_HAVE_NCCL_BACKEND != 0;

// Every rank counts its own world() calls in the store, so the n-th call of one meets the n-th call
// of the others, and no process-wide counter is needed. `group` names the ranks that share memory.
std::shared_ptr<CommunicatorBackend> make_shm(Session& session, const std::string& group, int rank,
                                              int size, std::chrono::milliseconds timeout,
                                              const WatchPtr& watch) {
    Store& store = session.store();
    const std::int64_t call = store.add(fmt::format("comm/{}/calls/{}", group, session.rank()), 1);
    const std::string key = fmt::format("comm/{}/address/{}", group, call);
    const ShmRendezvous rendezvous{
        [&](const std::string& address) { store.set(key, address); },
        [&](std::chrono::milliseconds longest) { return store.get(key, longest); },
        [watch](std::function<void(const std::string&)> abort) {
            return watch->hooks().add(std::move(abort));
        },
    };
    return ShmBackend::create(rendezvous, rank, size, timeout);
}

#if AUTOLAUNCH_HAVE_MPI
std::shared_ptr<CommunicatorBackend> make_mpi(const RankInfo& info,
                                              const CommunicatorOptions& wanted) {
    MpiOptions options;
    options.timeout = wanted.timeout;
    auto backend = MpiBackend::world(options);
    // An MPI that does not recognise its launcher silently makes every process rank 0 of 1.
    if (backend->size() != info.world_size || backend->rank() != info.rank) {
        throw Error(
            ErrorCode::mismatch,
            fmt::format("this is rank {} of {}, but MPI says rank {} of {}", info.rank,
                        info.world_size, backend->rank(), backend->size()),
            "the ranks were not started through this MPI; use its own launcher or backend shm");
    }
    return backend;
}

// Plain mpi where the nodes do not allow it; `reason` says why.
std::shared_ptr<CommunicatorBackend> make_shm_mpi(Session& session,
                                                  const CommunicatorOptions& wanted,
                                                  std::string& reason, const WatchPtr& watch) {
    const RankInfo& info = session.info();
    auto world = make_mpi(info, wanted);
    const RankPlace own{info.node_rank, info.local_rank, info.local_world_size};
    std::vector<RankPlace> places(static_cast<std::size_t>(info.world_size));
    world->start({.kind = CollectiveKind::all_gather,
                  .send = &own,
                  .recv = places.data(),
                  .blocks = BlockCounts::uniform(sizeof own, info.world_size),
                  .type = DataType::u8},
                 {});
    const NodePlan plan = plan_nodes(places, wanted.fixed_order);
    if (!plan.possible()) {
        reason = "mpi instead of shm+mpi: " + plan.obstacle;
        return world;
    }
    reason = fmt::format("{} nodes of {} ranks", plan.nodes, plan.ranks_per_node);
    auto local = make_shm(session, fmt::format("shm-of-node-{}", info.node_rank), info.local_rank,
                          info.local_world_size, wanted.timeout, watch);
    return HierarchicalBackend::create(std::move(local), std::move(world), plan,
                                       wanted.fixed_order);
}
#else  // choose_backend() has refused
std::shared_ptr<CommunicatorBackend> make_mpi(const RankInfo&, const CommunicatorOptions&) {
    return nullptr;
}
std::shared_ptr<CommunicatorBackend> make_shm_mpi(Session&, const CommunicatorOptions&,
                                                  std::string&, const WatchPtr&) {
    return nullptr;
}
#endif

GpuPlace gpu_of(const RankInfo& info) {
    return place_on_gpu(std::getenv(env::kCudaVisibleDevices),
                        installed_gpus("/proc/driver/nvidia/gpus"), info);
}

std::shared_ptr<CommunicatorBackend> make_nccl(
    [[maybe_unused]] Session& session, [[maybe_unused]] const CommunicatorOptions& options,
    [[maybe_unused]] const GpuPlace& gpu,
    [[maybe_unused]] const std::function<StorePtr()>& store_of,
    [[maybe_unused]] const WatchPtr& watch) {
#if AUTOLAUNCH_HAVE_NCCL_BACKEND
    if (options.fixed_order && session.world_size() > 1) {
        throw Error(ErrorCode::unsupported,
                    "backend nccl reduces in the order that its algorithm has",
                    "leave fixed_order, or reduce on the CPU with backend \"cpu\"");
    }
    NcclOptions settings;
    settings.device_index = gpu.index;
    settings.timeout = options.timeout;
    const char* blocking = std::getenv(env::kNcclBlocking);
    settings.blocking = blocking != nullptr && std::string_view(blocking) == "1";
    if (session.world_size() == 1) {
        auto alone = NcclBackend::create({}, "comm/nccl", 0, 1, settings);
        watch->end_before_leaving(alone->end_of_use());
        return alone;
    }
    // The threads that end a group may come later than the next generation, whose store is not
    // theirs: its groups have the same names.
    const StorePtr store = store_of();
    const std::int64_t call = store->add(fmt::format("comm/nccl/calls/{}", session.rank()), 1);
    const NcclRendezvous rendezvous{
        [store](const std::string& key, const std::string& value) { store->set(key, value); },
        [store](const std::string& key, std::chrono::milliseconds longest) {
            return store->get(key, longest);
        },
        [store](const std::string& key) { return store->check(std::span(&key, 1)); },
        [watch](std::function<void(const std::string&)> abort) {
            return watch->hooks().add(std::move(abort));
        },
    };
    auto backend = NcclBackend::create(rendezvous, fmt::format("comm/nccl/{}", call),
                                       session.rank(), session.world_size(), settings);
    watch->end_before_leaving(backend->end_of_use());
    return backend;
#else
    return nullptr;  // choose_backend() has refused
#endif
}

std::shared_ptr<CommunicatorBackend> make_backend(Session& session,
                                                  const CommunicatorOptions& options,
                                                  std::string& reason, const WatchPtr& watch,
                                                  const std::function<StorePtr()>& store_of) {
    const RankInfo& info = session.info();
    const GpuPlace gpu = gpu_of(info);
    switch (choose_backend(options.backend, info, kMpiBuiltIn, {kNcclBuiltIn, gpu.is_own})) {
        case BackendChoice::nccl:
            reason = "ranks have GPUs, or it was asked for";
            return make_nccl(session, options, gpu, store_of, watch);
        case BackendChoice::self:
            reason = "one rank";
            return std::make_shared<SelfBackend>();
        case BackendChoice::shm:
            reason = "all ranks are on one node";
            return make_shm(session, "shm", info.rank, info.world_size, options.timeout, watch);
        case BackendChoice::mpi:
            reason = "asked for";
            return make_mpi(info, options);
        case BackendChoice::shm_mpi:
            return make_shm_mpi(session, options, reason, watch);
    }
    throw Error(ErrorCode::unsupported, "no backend was chosen");
}

// Where a rank is debugged, the others wait until somebody has looked.
CommunicatorOptions patient(CommunicatorOptions options) {
    constexpr std::chrono::hours kLongest{24 * 7};
    if (std::getenv(env::kDebugRank) != nullptr)
        options.timeout = std::max<std::chrono::milliseconds>(options.timeout, kLongest);
    return options;
}

// Why this process cannot go on when another of its group is lost; empty: it can.
std::string why_not_in_place(std::string_view backend) {
    if (backend == "shm" || backend == "self" || backend == "nccl")
        return {};
    return "its collectives go over MPI, whose processes cannot lose one";
}

// The ranks must agree on it, as on every option.
bool compares_calls(const CommunicatorOptions& options) {
    const char* variable = std::getenv("AUTOLAUNCH_CHECK_COLLECTIVES");
    return options.check_calls || (variable != nullptr && std::string_view(variable) == "1");
}

}  // namespace

Communicator Communicator::world(Session& session, const CommunicatorOptions& wanted) {
    if (wanted.timeout <= std::chrono::milliseconds::zero()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("the communicator's timeout is {} ms", wanted.timeout.count()),
                    "give a time above zero");
    }
    const CommunicatorOptions options = patient(wanted);
    std::string reason;
    const auto watch = session.generation_watch();
    std::shared_ptr<CommunicatorBackend> backend;
    try {
        backend = make_backend(session, options, reason, watch,
                               [&session] { return session.shared_store(); });
    } catch (...) {
        watch->throw_if_explained();
        throw;
    }
    if (const std::string why = why_not_in_place(backend->name()); !why.empty())
        session.cannot_rejoin(why);
    const bool compares_itself = backend->name() == "shm" || backend->name() == "self";
    if (compares_calls(options) && !compares_itself && backend->device_type() == DeviceType::cpu)
        backend = std::make_shared<ComparingBackend>(std::move(backend));
    auto recorder = session.flight_recorder();
    const std::string name = recorder ? recorder->name_world() : std::string();
    Communicator world(std::move(backend), std::move(recorder), name, watch);
    world.backend_reason_ = std::make_shared<const std::string>(std::move(reason));
    return world;
}

}  // namespace autolaunch
