// What an NCCL communicator does while all is well. nccl_group_end.cpp has its failures and its
// end.
#include "comm/nccl/nccl_group.hpp"

#include "base/deadline.hpp"
#include "comm/nccl/backoff.hpp"
#include "comm/nccl/nccl_ids.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <future>
#include <utility>
#include <vector>

namespace autolaunch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{10};

std::vector<ncclUniqueId> exchange_ids(NcclRuntime& runtime, const std::string& name, int rank,
                                       int size) {
    const int count = nccl_id_count(size, runtime.nccl.CommInitRankScalable != nullptr);
    const auto key = [&](int index) { return fmt::format("{}/id/{}", name, index); };
    std::vector<ncclUniqueId> ids(static_cast<std::size_t>(count));
    for (int index = 0; index < count; ++index) {
        if (nccl_id_maker(index, count, size) != rank)
            continue;
        ncclUniqueId id;
        const ncclResult_t result = runtime.nccl.GetUniqueId(&id);
        if (result != ncclSuccess) {
            throw Error(
                ErrorCode::system,
                fmt::format("cannot make an id for NCCL: {}", runtime.nccl.GetLastError(nullptr)),
                "NCCL_DEBUG=INFO says more; NCCL_SOCKET_IFNAME names the interface to use");
        }
        runtime.rendezvous.set(key(index), std::string(id.internal, sizeof id.internal));
    }
    const Deadline deadline = Deadline::after(runtime.timeout);
    for (int index = 0; index < count; ++index) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
        const std::string value = runtime.rendezvous.get(key(index), left);
        if (value.size() != sizeof(ncclUniqueId))
            throw Error(ErrorCode::mismatch,
                        fmt::format("the store's {} is no id of NCCL", key(index)));
        std::memcpy(ids[static_cast<std::size_t>(index)].internal, value.data(),
                    sizeof(ncclUniqueId));
    }
    return ids;
}

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<NcclRuntime> runtime, std::string name, int rank, int size)
    : runtime_(std::move(runtime)),
      name_(std::move(name)),
      rank_(rank),
      size_(size),
      exceptions_at_birth_(std::uncaught_exceptions()) {}

std::shared_ptr<NcclGroup> NcclGroup::make(std::shared_ptr<NcclRuntime> runtime, std::string name,
                                           int rank, int size) {
    std::shared_ptr<NcclGroup> group(new NcclGroup(std::move(runtime), std::move(name), rank, size),
                                     end);
    group->runtime_->watchdog.watch(group);
    return group;
}

// While it is made: later its Communicator sees to it.
std::shared_ptr<void> NcclGroup::end_with_job() {
    if (!runtime_->rendezvous.end_with)
        return nullptr;
    return runtime_->rendezvous.end_with([this](const std::string& reason) { abort(reason); });
}

ncclConfig_t NcclGroup::config() const {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = runtime_->blocking ? 1 : 0;
    return config;
}

std::shared_ptr<NcclGroup> NcclGroup::connect(std::shared_ptr<NcclRuntime> runtime,
                                              std::string name, int rank, int size) {
    auto group = make(std::move(runtime), std::move(name), rank, size);
    if (size == 1)
        return group;
    const auto ends = group->end_with_job();
    auto ids = exchange_ids(*group->runtime_, group->name_, rank, size);
    const CudaDevice::Current current(*group->runtime_->device);
    group->run([] { return "NCCL's initialisation"; },
               [&](ncclComm_t) { return group->initialise(ids); });
    return group;
}

ncclResult_t NcclGroup::initialise(std::span<ncclUniqueId> ids) {
    const auto start = [this](std::span<ncclUniqueId> all, ncclComm_t* made) {
        ncclConfig_t settings = config();
        const NcclLibrary& nccl = runtime_->nccl;
        return nccl.CommInitRankScalable != nullptr
                   ? nccl.CommInitRankScalable(made, size_, rank_, static_cast<int>(all.size()),
                                               all.data(), &settings)
                   : nccl.CommInitRankConfig(made, size_, all.front(), rank_, &settings);
    };
    if (!runtime_->blocking) {
        const ncclResult_t result = start(ids, &made_);
        comm_ = made_;
        return result;
    }
    // A blocking initialisation has no end when a rank does not come, and nothing to abort it by:
    // it gets a thread, which is left behind then.
    struct Outcome {
        ncclComm_t comm = nullptr;
        std::vector<ncclUniqueId> ids;
        std::promise<ncclResult_t> result;
    };
    auto outcome = std::make_shared<Outcome>();
    outcome->ids.assign(ids.begin(), ids.end());
    auto result = outcome->result.get_future();
    std::thread([outcome, start, keep = shared_from_this()] {
        try {
            const CudaDevice::Current current(*keep->runtime_->device);
            outcome->result.set_value(start(outcome->ids, &outcome->comm));
        } catch (const Error&) {
            outcome->result.set_exception(std::current_exception());
        }
    }).detach();
    const Deadline deadline = Deadline::after(runtime_->timeout);
    while (result.wait_for(kLookEvery) != std::future_status::ready && !deadline.passed())
        if (state_.aborted())
            throw_failure();
    if (result.wait_for(std::chrono::seconds::zero()) != std::future_status::ready)
        fail_and_throw(ErrorCode::timeout,
                       fmt::format("rank {} of {}: NCCL's initialisation did not end within {} ms",
                                   rank_, size_, runtime_->timeout.count()));
    comm_ = outcome->comm;
    return result.get();
}

void NcclGroup::run(const std::function<std::string()>& doing, const Calls& calls) {
    state_.throw_if_aborted();
    const Deadline deadline = Deadline::after(runtime_->timeout);
    std::unique_lock lock(nccl_mutex_);
    if (stopping_)
        throw_failure();
    calling_since_ = Clock::now().time_since_epoch().count();
    ncclResult_t result = calls(comm_);
    calling_since_ = 0;
    if (state_.aborted())
        throw_failure();
    for (Backoff backoff; result == ncclInProgress;) {
        lock.unlock();
        if (state_.aborted())
            throw_failure();
        if (deadline.passed()) {
            fail_and_throw(ErrorCode::timeout,
                           fmt::format("rank {} of {}: {} was not taken by NCCL within {} ms",
                                       rank_, size_, doing(), runtime_->timeout.count()));
        }
        backoff.pause();
        lock.lock();
        if (stopping_)
            throw_failure();
        const ncclResult_t asked = runtime_->nccl.CommGetAsyncError(comm_, &result);
        if (asked != ncclSuccess)
            result = asked;
    }
    if (result == ncclSuccess)
        return;
    lock.unlock();
    fail_by(result, doing());
    throw_failure();
}

NcclGroup::Operation NcclGroup::record(const CollectiveCall& call, CUstream stream) {
    auto operation = std::make_shared<NcclOperation>();
    operation->call = call;
    operation->started = Clock::now();
    operation->event = runtime_->device->record(stream);
    const std::scoped_lock lock(pending_mutex_);
    while (!pending_.empty() && pending_.front()->is_over)
        pending_.pop_front();
    pending_.push_back(operation);
    return operation;
}

bool NcclGroup::is_over(const Operation& operation) {
    if (operation->is_over.load(std::memory_order_acquire))
        return true;
    if (state_.aborted())
        return true;  // wait() says how
    const CudaDevice::Current current(*runtime_->device);
    if (!runtime_->device->is_over(operation->event))
        return false;
    // An abort makes NCCL's kernels end, too; only what ended before it has its result.
    if (!state_.aborted())
        operation->is_over.store(true, std::memory_order_release);
    return true;
}

bool NcclGroup::wait(const Operation& operation, std::optional<Clock::time_point> limit) {
    for (Backoff backoff;; backoff.pause()) {
        try {
            if (is_over(operation))
                break;
        } catch (const Error& error) {
            fail_and_throw(ErrorCode::system, fmt::format("rank {} of {}: {}: {}", rank_, size_,
                                                          describe(operation->call), error.what()));
        }
        const auto now = Clock::now();
        if (now >= operation->started + runtime_->timeout) {
            fail_and_throw(ErrorCode::timeout,
                           fmt::format("rank {} of {}: {} did not end within {} ms", rank_, size_,
                                       describe(operation->call), runtime_->timeout.count()));
        }
        if (limit && now >= *limit)
            return false;
        if (backoff.rounds() % 64 == 63)
            look_for_errors(*operation);
    }
    if (!operation->is_over)
        throw_failure();
    return true;
}

void NcclGroup::wait_for_all() {
    std::deque<Operation> now;
    {
        const std::scoped_lock lock(pending_mutex_);
        now = pending_;
    }
    for (const Operation& operation : now)
        wait(operation);
}

// The parent is asked whether the child is ready; ncclCommSplit fills in the child only then.
std::shared_ptr<NcclGroup> NcclGroup::split(std::string name, int color, int rank, int size,
                                            bool any_pairs) {
    const bool pairs = color >= 0 && size > 1;
    made_ = nullptr;
    if (any_pairs) {
        const CudaDevice::Current current(*runtime_->device);
        ncclConfig_t settings = config();
        run([] { return "split"; },
            [&](ncclComm_t comm) {
                return runtime_->nccl.CommSplit(comm, pairs ? color : NCCL_SPLIT_NOCOLOR,
                                                pairs ? rank : 0, &made_, &settings);
            });
    }
    if (color < 0)
        return nullptr;
    auto group = make(runtime_, std::move(name), rank, size);
    group->comm_ = made_;
    const auto ends = group->end_with_job();
    if (pairs)
        group->await_ready("split");
    return group;
}

void NcclGroup::await_ready(const char* doing) {
    const CudaDevice::Current current(*runtime_->device);
    run([doing] { return std::string(doing); },
        [](ncclComm_t comm) { return comm == nullptr ? ncclInternalError : ncclInProgress; });
}

std::shared_ptr<void> NcclGroup::allocate(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;  // also NCCL_WIN_REQUIRED_ALIGNMENT
    const std::size_t whole_pages = std::max((bytes + kPage - 1) / kPage * kPage, kPage);
    const CudaDevice::Current current(*runtime_->device);
    if (size_ > 1 && runtime_->nccl.MemAlloc != nullptr && runtime_->nccl.MemFree != nullptr)
        return take_nccl_memory(whole_pages);
    const std::shared_ptr<void> memory = runtime_->device->allocate(whole_pages + kPage);
    const auto at = (reinterpret_cast<std::uintptr_t>(memory.get()) + kPage - 1) / kPage * kPage;
    return {memory, reinterpret_cast<void*>(at)};
}

std::shared_ptr<void> NcclGroup::take_nccl_memory(std::size_t bytes) {
    void* memory = nullptr;
    const ncclResult_t result = runtime_->nccl.MemAlloc(&memory, bytes);
    if (result != ncclSuccess)
        throw Error(ErrorCode::system,
                    fmt::format("NCCL cannot allocate {} bytes of GPU memory: {}", bytes,
                                last_words(result)));
    // The memory is freed by `owned` even when the registration throws.
    std::shared_ptr<void> owned(memory, [runtime = runtime_](void* gone) {
        if (const CudaDevice::Current current(*runtime->device, std::nothrow); current)
            runtime->nccl.MemFree(gone);
    });
    auto deregister = register_memory(memory, bytes);
    return {memory, [owned = std::move(owned), keep = shared_from_this(),
                     deregister = std::move(deregister)](void*) {
                const CudaDevice::Current current(*keep->runtime_->device, std::nothrow);
                const auto lock = lock_within(keep->nccl_mutex_, std::chrono::seconds(1));
                // What was aborted has let go of everything, and is not to be asked.
                if (current && lock.owns_lock() && !keep->stopping_)
                    deregister();
            }};
}

std::function<void()> NcclGroup::register_memory(void* memory, std::size_t bytes) {
    const NcclLibrary& nccl = runtime_->nccl;
    const bool window = nccl.CommWindowRegister != nullptr && nccl.CommWindowDeregister != nullptr;
    const bool buffer = nccl.CommRegister != nullptr && nccl.CommDeregister != nullptr;
    if (!window && !buffer)
        return [] {};
    registered_ = nullptr;
    run([] { return "the registration of a buffer"; },
        [&](ncclComm_t comm) {
            return window ? nccl.CommWindowRegister(comm, memory, bytes, &registered_,
                                                    kNcclWindowSymmetric)
                          : nccl.CommRegister(comm, memory, bytes, &registered_);
        });
    if (registered_ == nullptr)
        return [] {};  // NCCL's word for: it brings nothing here
    return [this, handle = registered_, window] {
        if (window) {
            runtime_->nccl.CommWindowDeregister(comm_, handle);
        } else {
            runtime_->nccl.CommDeregister(comm_, handle);
        }
    };
}

}  // namespace autolaunch
