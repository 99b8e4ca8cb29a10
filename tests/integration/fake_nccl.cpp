// See fake_gpu.hpp. Ranks are processes (or threads) that share a segment with a byte stream from
// each to each; every collective is sends and receives over these, and every rank reduces for
// itself, in rank order.
#include "fake_gpu.hpp"

#include <autolaunch/comm/types.hpp>

#include <nccl.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace autolaunch;
using fake_gpu::control;

#ifndef FAKE_NCCL_VERSION
#define FAKE_NCCL_VERSION 22809
#endif

namespace {

constexpr int kMostRanks = 16;
constexpr std::size_t kPipeBytes = 1 << 15;

struct Pipe {
    std::atomic<std::uint64_t> written;
    std::atomic<std::uint64_t> read;
    std::byte data[kPipeBytes];
};

struct Segment {
    std::atomic<int> arrived;
    std::atomic<int> pids[kMostRanks];
    Pipe pipes[kMostRanks][kMostRanks];  // [from][to]; pages that nobody touches cost nothing
};

struct Transfer {
    int peer;
    std::byte* at;
    std::size_t left;
};

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

}  // namespace

struct ncclComm {
    std::string name;
    int rank = 0;
    int size = 0;
    bool blocking = true;
    Segment* segment = nullptr;
    std::atomic<bool> stop{false};  // aborted or revoked
    std::atomic<bool> revoked{false};
    std::atomic<bool> finalized{false};
    std::atomic<int> references{1};  // the caller's, and one for each collective on a stream
    int children = 0;
    std::vector<double> factors;
    // Non-blocking calls: `deferred` runs when it was asked for often enough.
    std::mutex mutex;
    std::function<ncclResult_t()> deferred;
    int polls_left = 0;
    std::thread job;
    std::atomic<bool> job_runs{false};
    std::atomic<int> result{ncclSuccess};
    std::atomic<bool> network_failed{
        false};  // said for good where nothing else is, as NCCL's proxy does
    // Collectives of one communicator run one after the other, whatever streams they are on.
    std::atomic<std::uint64_t> enqueued{0};
    std::atomic<std::uint64_t> finished{0};

    void drop() {
        if (--references != 0)
            return;
        if (segment != nullptr)
            ::munmap(segment, sizeof(Segment));
        delete this;
    }
};

namespace {

/// `parent` is what a new communicator is split from; with it stopped, nobody else comes.
ncclResult_t attach(ncclComm& comm, const ncclComm* parent = nullptr) {
    const int file = ::shm_open(comm.name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(Segment)) != 0)
        return ncclSystemError;
    void* mapped = ::mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped == MAP_FAILED)
        return ncclSystemError;
    comm.segment = static_cast<Segment*>(mapped);
    comm.segment->pids[comm.rank] = ::getpid();
    if (++comm.segment->arrived == comm.size)
        ::shm_unlink(comm.name.c_str());
    std::this_thread::sleep_for(std::chrono::milliseconds(control().init_delay_ms));
    while (comm.segment->arrived < comm.size) {
        if (comm.stop || (parent != nullptr && parent->stop)) {
            ::shm_unlink(comm.name.c_str());
            return ncclSystemError;
        }
        nap();
    }
    return ncclSuccess;
}

ncclResult_t run_job(ncclComm& comm, const std::function<ncclResult_t()>& work) {
    if (comm.blocking)
        return work();
    if (comm.job.joinable())
        comm.job.join();
    comm.job_runs = true;
    comm.job = std::thread([&comm, work] {
        comm.result = work();
        comm.job_runs = false;
    });
    return ncclInProgress;
}

/// Whether this rank waits for one that ended.
bool waits_for_the_dead(const ncclComm& comm, const std::vector<Transfer>& transfers) {
    return std::any_of(transfers.begin(), transfers.end(), [&](const Transfer& transfer) {
        return transfer.left != 0 && ::kill(comm.segment->pids[transfer.peer], 0) != 0;
    });
}

/// Moves what it can; true when something moved.
bool move(Pipe& pipe, Transfer& transfer, bool out) {
    const std::uint64_t written = pipe.written, read = pipe.read;
    const std::size_t room = out ? kPipeBytes - (written - read) : written - read;
    const std::size_t at = (out ? written : read) % kPipeBytes;
    const std::size_t bytes = std::min({room, transfer.left, kPipeBytes - at});
    if (bytes == 0)
        return false;
    if (out) {
        std::memcpy(pipe.data + at, transfer.at, bytes);
        pipe.written = written + bytes;
    } else {
        std::memcpy(transfer.at, pipe.data + at, bytes);
        pipe.read = read + bytes;
    }
    transfer.at += bytes;
    transfer.left -= bytes;
    return true;
}

/// All side by side; those of one pair in order. False when the communicator was stopped.
bool exchange(ncclComm& comm, std::vector<Transfer> sends, std::vector<Transfer> recvs) {
    bool is_alone = false;  // no one will move anything any more
    for (int idle = 0;;) {
        bool moved = false;
        const auto progress = [&](std::vector<Transfer>& list, bool out) {
            bool busy[kMostRanks] = {};
            for (Transfer& transfer : list) {
                if (transfer.left == 0 || busy[transfer.peer])
                    continue;
                Pipe& pipe = out ? comm.segment->pipes[comm.rank][transfer.peer]
                                 : comm.segment->pipes[transfer.peer][comm.rank];
                moved |= move(pipe, transfer, out);
                busy[transfer.peer] = transfer.left != 0;
            }
        };
        progress(sends, true);
        progress(recvs, false);
        const auto done = [](const Transfer& transfer) { return transfer.left == 0; };
        if (std::all_of(sends.begin(), sends.end(), done) &&
            std::all_of(recvs.begin(), recvs.end(), done))
            return true;
        if (comm.stop)
            return false;
        if (!moved && is_alone)
            comm.network_failed = true;
        if (moved) {
            idle = 0;
        } else if (++idle < 20) {
            std::this_thread::yield();
        } else {
            nap();
            // Who ended may have sent before: looked for once more.
            if (idle % 200 == 0)
                is_alone = waits_for_the_dead(comm, sends) || waits_for_the_dead(comm, recvs);
        }
    }
}

/// Every rank's `bytes`, in rank order. In place nothing writes to this rank's own, so others may
/// read them meanwhile.
bool gather_all(ncclComm& comm, const void* own, std::size_t bytes, std::byte* all) {
    const bool in_place = own == all + static_cast<std::size_t>(comm.rank) * bytes;
    std::vector<std::byte> copy(static_cast<const std::byte*>(own),
                                static_cast<const std::byte*>(own) + bytes);
    std::vector<Transfer> sends, recvs;
    for (int peer = 0; peer < comm.size; ++peer) {
        if (in_place && peer == comm.rank)
            continue;
        sends.push_back({peer, copy.data(), bytes});
        recvs.push_back({peer, all + static_cast<std::size_t>(peer) * bytes, bytes});
    }
    return exchange(comm, std::move(sends), std::move(recvs));
}

template <class T>
struct Wide {
    using type = T;
};
template <>
struct Wide<bfloat16> {
    using type = float;
};
template <>
struct Wide<float16> {
    using type = float;
};

template <class T>
T combine(T a, T b, ncclRedOp_t op) {
    if (op == ncclMin)
        return std::min(a, b);
    if (op == ncclMax)
        return std::max(a, b);
    if constexpr (std::is_integral_v<T>) {  // wraps
        using U = std::make_unsigned_t<T>;
        const auto x = static_cast<std::uint64_t>(static_cast<U>(a)),
                   y = static_cast<std::uint64_t>(static_cast<U>(b));
        return static_cast<T>(op == ncclProd ? x * y : x + y);
    } else {
        return op == ncclProd ? a * b : a + b;
    }
}

/// Block b of `all` is rank b's.
template <class T>
void reduce(const std::byte* all, void* to, std::size_t count, int ranks, ncclRedOp_t op) {
    using W = typename Wide<T>::type;
    const auto* elements = reinterpret_cast<const T*>(all);
    for (std::size_t i = 0; i < count; ++i) {
        W value = static_cast<W>(elements[i]);
        for (int rank = 1; rank < ranks; ++rank)
            value = combine(
                value, static_cast<W>(elements[static_cast<std::size_t>(rank) * count + i]), op);
        static_cast<T*>(to)[i] = static_cast<T>(value);
    }
}

template <class T>
void multiply(std::byte* data, std::size_t count, double factor) {
    using W = typename Wide<T>::type;
    auto* elements = reinterpret_cast<T*>(data);
    for (std::size_t i = 0; i < count; ++i)
        elements[i] =
            static_cast<T>(static_cast<W>(static_cast<W>(elements[i]) * static_cast<W>(factor)));
}

/// Calls visit.template operator()<T>().
template <class Visit>
void for_type(ncclDataType_t type, const Visit& visit) {
    switch (type) {
        case ncclInt8:
            return visit.template operator()<std::int8_t>();
        case ncclUint8:
            return visit.template operator()<std::uint8_t>();
        case ncclInt32:
            return visit.template operator()<std::int32_t>();
        case ncclUint32:
            return visit.template operator()<std::uint32_t>();
        case ncclInt64:
            return visit.template operator()<std::int64_t>();
        case ncclUint64:
            return visit.template operator()<std::uint64_t>();
        case ncclFloat16:
            return visit.template operator()<float16>();
        case ncclFloat32:
            return visit.template operator()<float>();
        case ncclFloat64:
            return visit.template operator()<double>();
        case ncclBfloat16:
            return visit.template operator()<bfloat16>();
        default:
            ++control().wrong_uses;
    }
}

std::size_t size_of_type(ncclDataType_t type) {
    std::size_t bytes = 0;
    for_type(type, [&]<class T>() { bytes = sizeof(T); });
    return bytes;
}

/// One call of a group. `body` runs on the stream; sends and receives are one exchange of the whole
/// group.
struct Task {
    ncclComm* comm;
    cudaStream_t stream;
    bool sends = false;
    bool receives = false;
    bool is_block = false;  // of a ragged collective
    Transfer transfer = {};
    std::function<bool()> body;
};

thread_local int group_depth = 0;
thread_local std::vector<Task> group_tasks;

void run_tasks(ncclComm& comm, const std::vector<Task>& tasks, std::uint64_t ticket) {
    while (comm.finished != ticket && !comm.stop)
        nap();
    while (control().hang && !comm.stop)
        nap();
    std::vector<Transfer> sends, recvs;
    for (const Task& task : tasks) {
        if (task.sends)
            sends.push_back(task.transfer);
        if (task.receives)
            recvs.push_back(task.transfer);
    }
    bool good = !comm.stop && exchange(comm, std::move(sends), std::move(recvs));
    for (const Task& task : tasks)
        if (good && task.body)
            good = task.body();
    comm.finished = ticket + 1;
}

// NCCL wants collectives in one order on all ranks, which two threads do not keep. Programs that
// say they have one are taken by their word.
void require_one_thread() {
    static const bool is_said = std::getenv("FAKE_NCCL_ONE_THREAD") != nullptr;
    static const std::thread::id first = std::this_thread::get_id();
    if (!is_said || std::this_thread::get_id() == first)
        return;
    std::fputs("fake NCCL: a second thread calls a collective\n", stderr);
    std::abort();
}

ncclResult_t launch(const std::vector<Task>& tasks) {
    require_one_thread();
    ncclComm& comm = *tasks.front().comm;
    const auto put = [&comm, tasks] {
        fake_gpu::put_made_on(reinterpret_cast<CUstream_st*>(tasks.front().stream), [&comm, tasks] {
            ++comm.references;
            return [&comm, tasks, ticket = comm.enqueued++] {
                run_tasks(comm, tasks, ticket);
                comm.drop();
            };
        });
        return ncclSuccess;
    };
    while (control().hang_in_call && !comm.stop)
        nap();
    if (comm.stop)
        return ncclInternalError;
    if (comm.blocking)
        return put();
    const std::scoped_lock lock(comm.mutex);
    comm.deferred = put;
    comm.polls_left = control().busy_polls;
    return ncclInProgress;
}

ncclResult_t add(Task task) {
    ncclComm& comm = *task.comm;
    {
        const std::scoped_lock lock(comm.mutex);
        if (!fake_gpu::has_context() || comm.revoked || comm.finalized || comm.deferred ||
            comm.job_runs) {
            ++control().wrong_uses;  // a call before the one before was taken
            return ncclInvalidUsage;
        }
    }
    group_tasks.push_back(std::move(task));
    if (group_depth != 0)
        return ncclSuccess;
    const std::vector<Task> tasks = std::exchange(group_tasks, {});
    return launch(tasks);
}

std::byte* bytes_at(void* buffer, std::size_t bytes) {
    return static_cast<std::byte*>(buffer) + bytes;
}
const std::byte* bytes_at(const void* buffer, std::size_t bytes) {
    return static_cast<const std::byte*>(buffer) + bytes;
}

/// This rank's elements, multiplied where `op` was made for a factor.
std::vector<std::byte> prepared(const ncclComm& comm, const void* send, std::size_t count,
                                ncclDataType_t type, ncclRedOp_t op) {
    const auto* begin = static_cast<const std::byte*>(send);
    std::vector<std::byte> copy(begin, begin + count * size_of_type(type));
    if (op >= ncclNumOps) {
        const double factor = comm.factors[static_cast<std::size_t>(op - ncclNumOps)];
        for_type(type, [&]<class T>() { multiply<T>(copy.data(), count, factor); });
    }
    return copy;
}

/// Elements [begin, begin + count) of everybody's, reduced to `to` unless it is null.
bool reduce_part(ncclComm& comm, const std::vector<std::byte>& own, std::size_t begin,
                 std::size_t count, void* to, ncclDataType_t type, ncclRedOp_t op) {
    const std::size_t bytes = size_of_type(type);
    std::vector<std::byte> all(static_cast<std::size_t>(comm.size) * count * bytes);
    if (!gather_all(comm, own.data() + begin * bytes, count * bytes, all.data()))
        return false;
    const ncclRedOp_t kind = op >= ncclNumOps ? ncclSum : op;
    if (to != nullptr)
        for_type(type, [&]<class T>() { reduce<T>(all.data(), to, count, comm.size, kind); });
    return true;
}

ncclComm* make_comm(std::string name, int rank, int size, const ncclConfig_t* config,
                    bool parent_blocking) {
    auto* comm = new ncclComm;
    // Of a GPU that is broken nobody ends them: that is no leak.
    static std::mutex mutex;
    static auto* const all = new std::vector<ncclComm*>;
    {
        const std::lock_guard lock(mutex);
        all->push_back(comm);
    }
    comm->name = std::move(name);
    comm->rank = rank;
    comm->size = size;
    comm->blocking = config == nullptr ? parent_blocking : config->blocking != 0;
    ++control().communicators;
    if (size == 1 || size > kMostRanks)
        ++control().wrong_uses;
    return comm;
}

/// Jobs write their results when they end; a caller that gives one up has left its frames by then.
void check_outlives(const ncclComm& comm, const void* result) {
    pthread_attr_t attributes;
    void* begin = nullptr;
    std::size_t bytes = 0;
    if (::pthread_getattr_np(::pthread_self(), &attributes) != 0)
        return;
    ::pthread_attr_getstack(&attributes, &begin, &bytes);
    ::pthread_attr_destroy(&attributes);
    const auto* at = static_cast<const std::byte*>(result);
    const auto* stack = static_cast<const std::byte*>(begin);
    if (!comm.blocking && at >= stack && at < stack + bytes)
        ++control().wrong_uses;
}

ncclResult_t start_comm(ncclComm_t* made, int size, int rank, const ncclUniqueId& id,
                        const ncclConfig_t* config) {
    if (!fake_gpu::has_context() || config == nullptr || config->magic != 0xcafebeef)
        ++control().wrong_uses;
    ncclComm* comm = make_comm(id.internal, rank, size, config, true);
    *made = comm;
    check_outlives(*comm, made);
    return run_job(*comm, [comm] { return attach(*comm); });
}

void end_comm(ncclComm* comm) {
    --control().communicators;
    if (comm->job.joinable())
        comm->job.join();
    comm->drop();
}

/// Collectives are told to end; those that wait on their stream for something else must come to it
/// first.
void hang_in_end() {
    if (control().hang_in_end)
        std::this_thread::sleep_for(std::chrono::minutes(1));
}

void stop_comm(ncclComm& comm) {
    comm.stop = true;
    const std::scoped_lock lock(comm.mutex);
    comm.deferred = nullptr;
}
void await_streams(const ncclComm& comm) {
    while (comm.references != 1)
        nap();
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

ncclResult_t ncclGetVersion(int* version) {
    *version = FAKE_NCCL_VERSION;
    return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
    return result == ncclRemoteError ? "remote process exited or there was a network error"
                                     : "unhandled fake error";
}
const char* ncclGetLastError(ncclComm_t) { return "last words of the fake"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    std::memset(id, 0, sizeof *id);
    std::random_device random;
    std::snprintf(id->internal, sizeof id->internal, "/fake-nccl-%d-%08x%08x", ::getpid(), random(),
                  random());
    return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    control().initialised_with_ids = 1;
    return start_comm(comm, size, rank, id, config);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
    if (const int error = control().async_error; error != 0) {
        *result = static_cast<ncclResult_t>(error);
        return ncclSuccess;
    }
    const std::scoped_lock lock(comm->mutex);
    *result = comm->job_runs ? ncclInProgress : static_cast<ncclResult_t>(comm->result.load());
    if (*result == ncclSuccess && comm->network_failed)
        *result = ncclRemoteError;
    if (comm->deferred && --comm->polls_left <= 0) {
        const ncclResult_t launched = std::exchange(comm->deferred, nullptr)();
        if (*result == ncclSuccess)
            *result = launched;
    } else if (comm->deferred) {
        *result = ncclInProgress;
    }
    return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
    const std::string suffix =
        "-s" + std::to_string(comm->children++) + "c" + std::to_string(color);
    *child = nullptr;
    const bool blocking = config == nullptr ? comm->blocking : config->blocking != 0;
    check_outlives(*comm, child);
    return run_job(*comm, [=] {
        while (comm->finished != comm->enqueued && !comm->stop)
            nap();
        struct Wish {
            int color, key;
        } own{color, key};
        std::vector<Wish> wishes(static_cast<std::size_t>(comm->size));
        if (!gather_all(*comm, &own, sizeof own, reinterpret_cast<std::byte*>(wishes.data()))) {
            *child = nullptr;
            return ncclSystemError;
        }
        if (color == NCCL_SPLIT_NOCOLOR)
            return ncclSuccess;
        int rank = 0, size = 0;
        for (int other = 0; other < comm->size; ++other) {
            const Wish& wish = wishes[static_cast<std::size_t>(other)];
            if (wish.color != color)
                continue;
            ++size;
            rank += wish.key < key || (wish.key == key && other < comm->rank) ? 1 : 0;
        }
        ncclComm* made = make_comm(comm->name + suffix, rank, size, nullptr, blocking);
        const ncclResult_t result = attach(*made, comm);
        *child = made;
        return result;
    });
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    if (comm->revoked) {
        ++control().wrong_uses;
        return ncclInvalidUsage;
    }
    comm->finalized = true;
    return run_job(*comm, [comm] {
        while (comm->finished != comm->enqueued && !comm->stop)
            nap();
        return ncclSuccess;
    });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!comm->finalized && !comm->revoked)
        ++control().wrong_uses;
    end_comm(comm);
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    ++control().aborts;
    hang_in_end();
    stop_comm(*comm);
    await_streams(*comm);
    end_comm(comm);
    return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
    ++group_depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    if (--group_depth != 0 || group_tasks.empty())
        return ncclSuccess;
    const std::vector<Task> tasks = std::exchange(group_tasks, {});
    // NCCL sorts and joins collectives of a group: other ranks' groups had to be the same.
    const auto stands_alone = [](const Task& task) { return task.body && !task.is_block; };
    if (tasks.size() > 1 && std::any_of(tasks.begin(), tasks.end(), stands_alone))
        ++control().wrong_uses;
    return launch(tasks);
}
ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return add({.comm = comm, .stream = stream, .body = [=] {
                    return reduce_part(*comm, prepared(*comm, send, count, type, op), 0, count,
                                       recv, type, op);
                }});
}
ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    return add({.comm = comm, .stream = stream, .is_block = true, .body = [=] {
                    return reduce_part(*comm, prepared(*comm, send, count, type, op), 0, count,
                                       comm->rank == root ? recv : nullptr, type, op);
                }});
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return add({.comm = comm, .stream = stream, .body = [=] {
                    const auto ranks = static_cast<std::size_t>(comm->size);
                    const auto own = prepared(*comm, send, count * ranks, type, op);
                    for (std::size_t block = 0; block < ranks; ++block) {
                        void* to = block == static_cast<std::size_t>(comm->rank) ? recv : nullptr;
                        if (!reduce_part(*comm, own, block * count, count, to, type, op))
                            return false;
                    }
                    return true;
                }});
}
ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    return add({.comm = comm, .stream = stream, .body = [=] {
                    return gather_all(*comm, send, count * size_of_type(type),
                                      static_cast<std::byte*>(recv));
                }});
}
ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
    return add(
        {.comm = comm, .stream = stream, .is_block = true, .body = [=] {
             const std::size_t bytes = count * size_of_type(type);
             if (comm->rank != root)
                 return exchange(*comm, {}, {{root, bytes_at(recv, 0), bytes}});
             std::vector<Transfer> sends;
             for (int peer = 0; peer < comm->size; ++peer)
                 if (peer != root)
                     sends.push_back({peer, const_cast<std::byte*>(bytes_at(send, 0)), bytes});
             if (send != recv)
                 std::memcpy(recv, send, bytes);
             return exchange(*comm, std::move(sends), {});
         }});
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    return add(
        {.comm = comm,
         .stream = stream,
         .sends = true,
         .transfer = {peer, const_cast<std::byte*>(bytes_at(send, 0)), count * size_of_type(type)},
         .body = {}});
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return add({.comm = comm,
                .stream = stream,
                .receives = true,
                .transfer = {peer, bytes_at(recv, 0), count * size_of_type(type)},
                .body = {}});
}
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t where, ncclComm_t comm) {
    if (where != ncclScalarHostImmediate)
        ++control().wrong_uses;
    for_type(type, [&]<class T>() {
        T value;
        std::memcpy(&value, scalar, sizeof value);
        comm->factors.push_back(static_cast<double>(static_cast<typename Wide<T>::type>(value)));
    });
    *op = static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(comm->factors.size()) - 1);
    return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t) {
    if (op < ncclNumOps)
        ++control().wrong_uses;
    return ncclSuccess;
}

#if FAKE_NCCL_VERSION >= 21900
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
    *memory = fake_gpu::allocate(bytes);
    return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
    fake_gpu::release(memory);
    return ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t, void** handle) {
    check_outlives(*comm, handle);
    ++control().registrations;
    *handle = memory;
    return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) {
    --control().registrations;
    return ncclSuccess;
}
#endif
#if FAKE_NCCL_VERSION >= 22800
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int ids,
                                      ncclUniqueId* all, ncclConfig_t* config) {
    control().initialised_with_ids = ids;
    return start_comm(comm, size, rank, all[0], config);
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t bytes,
                                    ncclWindow_t* window, int flags) {
    check_outlives(*comm, window);
    if (reinterpret_cast<std::uintptr_t>(memory) % 4096 != 0 || bytes % 4096 != 0 ||
        flags != NCCL_WIN_COLL_SYMMETRIC)
        ++control().wrong_uses;
    ++control().registrations;
    *window = static_cast<ncclWindow_t>(memory);
    return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
    --control().registrations;
    return ncclSuccess;
}
ncclResult_t ncclCommRevoke(ncclComm_t comm, int) {
    if (comm->revoked || comm->finalized) {
        ++control().wrong_uses;
        return ncclInvalidArgument;
    }
    if (control().revoke_fails)
        return ncclInternalError;
    ++control().revokes;
    hang_in_end();
    comm->revoked = true;
    stop_comm(*comm);
    return run_job(*comm, [comm] {
        await_streams(*comm);
        return ncclSuccess;
    });
}
ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t stream) {
    return add({.comm = comm, .stream = stream, .body = [=] {
                    const std::size_t bytes = count * size_of_type(type);
                    auto* own = const_cast<std::byte*>(bytes_at(send, 0));
                    if (comm->rank != root)
                        return exchange(*comm, {{root, own, bytes}}, {});
                    std::vector<Transfer> recvs;
                    for (int peer = 0; peer < comm->size; ++peer) {
                        std::byte* block = bytes_at(recv, static_cast<std::size_t>(peer) * bytes);
                        if (peer != root)
                            recvs.push_back({peer, block, bytes});
                        if (peer == root && block != own)
                            std::memcpy(block, own, bytes);
                    }
                    return exchange(*comm, {}, std::move(recvs));
                }});
}
ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream) {
    return add({.comm = comm, .stream = stream, .body = [=] {
                    const std::size_t bytes = count * size_of_type(type);
                    if (comm->rank != root)
                        return exchange(*comm, {}, {{root, bytes_at(recv, 0), bytes}});
                    std::vector<Transfer> sends;
                    for (int peer = 0; peer < comm->size; ++peer) {
                        auto* block = const_cast<std::byte*>(
                            bytes_at(send, static_cast<std::size_t>(peer) * bytes));
                        if (peer != root)
                            sends.push_back({peer, block, bytes});
                        if (peer == root && block != recv)
                            std::memcpy(recv, block, bytes);
                    }
                    return exchange(*comm, std::move(sends), {});
                }});
}
#endif

#pragma GCC visibility pop
}
