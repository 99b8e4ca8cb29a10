#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/borrowed.hpp>
#include <autolaunch/comm/device.hpp>
#include <autolaunch/comm/types.hpp>
#include <autolaunch/export.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace autolaunch {

class CudaDevice;  // private: lib/src/comm/nccl/cuda_device.hpp
class Session;
class CommunicatorBackend;  // private: lib/src/comm/backend.hpp
class CallDispatcher;       // private: lib/src/comm/call_dispatcher.hpp
class GenerationWatch;      // private: lib/src/session/generation_watch.hpp
class FlightRecorder;       // private: lib/src/flight/flight_recorder.hpp
struct CollectiveCall;      // private: lib/src/comm/call.hpp

struct CommunicatorOptions {
    /// "auto", "self" (one rank), "shm" (all ranks on one node), "mpi" (Open MPI or another MPI
    /// that started us, or that autolaunch started through PMI), "shm+mpi" (shared memory within a
    /// node, MPI between nodes) or "nccl" (GPUs). auto: nccl where the rank has a GPU and NCCL is
    /// built in, self for one rank, shm on one node, shm+mpi on several. Where nodes differ in
    /// their number of ranks, or ranks do not follow each other on their nodes, shm+mpi is mpi;
    /// backend_reason() says so. cpu: as auto, but never nccl.
    std::string backend = "auto";
    /// No collective takes longer, or it throws TimeoutError and the communicator is aborted.
    /// NCCL's watchdog's default.
    std::chrono::milliseconds timeout{600'000};
    /// Reductions in one order whatever the backend, the algorithm and the time of arrival:
    /// pairwise over the ranks,
    /// ((0 + 1) + (2 + 3)) + …, in f32 or better. Always so on shm and mpi; shm+mpi may become mpi;
    /// nccl refuses.
    bool fixed_order = false;
    /// Every call is compared between the ranks before it runs, and a difference throws
    /// Error{mismatch} that names both sides. shm always does so; elsewhere it costs an exchange a
    /// call. Also by AUTOLAUNCH_CHECK_COLLECTIVES=1.
    bool check_calls = false;
};

/// A collective that was put on a stream. With a CPU backend and no queue it is complete already,
/// and errors are thrown by the call.
///
/// A handle: copies share one operation. Threads: any.
class AUTOLAUNCH_API Work {
public:
    class State;
    Work() = default;  ///< already complete
    explicit Work(std::shared_ptr<State> state);

    bool is_completed() const;
    /// Returns when the operation is complete; throws what it failed with. The deadline is the
    /// communicator's.
    void wait();
    /// As wait(), but at most `timeout`: false when the operation goes on after it.
    bool wait_for(std::chrono::nanoseconds timeout);

private:
    std::shared_ptr<State> state_;
};

enum class CommunicatorStatus { ok, aborted };

/// Memory that a communicator moves without copies: shared between the ranks of a node, or
/// registered with NCCL. Starts on a page. Move-only; the memory goes with it, and must not be used
/// after the communicator was lost.
class AUTOLAUNCH_API CommunicatorBuffer {
public:
    CommunicatorBuffer() = default;
    CommunicatorBuffer(std::shared_ptr<void> memory, std::size_t bytes)
        : memory_(std::move(memory)), bytes_(bytes) {}
    CommunicatorBuffer(CommunicatorBuffer&&) noexcept = default;
    CommunicatorBuffer& operator=(CommunicatorBuffer&&) noexcept = default;

    void* data() const& noexcept { return memory_.get(); }
    void* data() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    std::size_t bytes() const noexcept { return bytes_; }
    template <class T>
    std::span<T> as() const& noexcept {
        return {static_cast<T*>(memory_.get()), bytes_ / sizeof(T)};
    }
    template <class T>
    std::span<T> as() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

private:
    std::shared_ptr<void> memory_;
    std::size_t bytes_ = 0;
};

/// A group of ranks that call collectives together, in the same order, with the same counts and
/// types. A handle: copies share one group.
///
/// Threads: one at a time, except abort(), status() and check(), which any thread may call. Blocks:
/// with CPU backends and no CpuQueue each collective until it is done, at most
/// CommunicatorOptions::timeout. Counts are elements, not bytes. `send == recv` means in place
/// wherever a function has both; otherwise the two must not overlap. Blocks of several ranks lie
/// one after the other in rank order; in the ragged forms (`_v`) block r has counts[r] elements,
/// and every rank passes the same counts.
class AUTOLAUNCH_API Communicator {
public:
    /// All ranks of the job. Collective: every rank must call it.
    [[nodiscard]] static Communicator world(Session& session,
                                            const CommunicatorOptions& options = {});
    /// Around a backend that the caller made; for tests and for backends outside the library.
    explicit Communicator(std::shared_ptr<CommunicatorBackend> backend);

    int rank() const noexcept;
    int size() const noexcept;
    std::string_view backend() const& noexcept;  ///< "self", "shm", "mpi", "shm+mpi", …
    std::string_view backend() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// Why world() took it: "mpi instead of shm+mpi: the nodes of ranks 0 and 4 have 4 and 2
    /// ranks". Empty for others.
    std::string backend_reason() const {
        return backend_reason_ ? *backend_reason_ : std::string();
    }

    /// What the calls from here on are for, such as "h.3 gradients": the flight recorder shows it
    /// with each. Cut at 64 bytes; empty for nothing. Of all handles of the group.
    void set_label(std::string_view label) noexcept;
    /// Valid until the next set_label().
    std::string_view label() const& noexcept;
    std::string_view label() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

    /// recv[i] = op over ranks of send[i], for i < count; equal to the last bit on all ranks.
    Work all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                    Stream stream = {});
    /// The same, in the root's recv only; others may pass null.
    Work reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                int root, Stream stream = {});
    Work broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream = {});
    /// recv = the ranks' send buffers in rank order: size() * send_count elements. In place: send
    /// == recv + rank() * send_count.
    Work all_gather(const void* send, void* recv, std::size_t send_count, DataType type,
                    Stream stream = {});
    /// In place: send is this rank's block of recv.
    Work all_gather_v(const void* send, void* recv, std::span<const std::size_t> counts,
                      DataType type, Stream stream = {});
    /// recv = this rank's recv_count elements of the reduction of send, which has size() *
    /// recv_count elements. In place: recv == send + rank() * recv_count.
    Work reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type,
                        ReduceOp op, Stream stream = {});
    /// In place: recv is this rank's block of send.
    Work reduce_scatter_v(const void* send, void* recv, std::span<const std::size_t> counts,
                          DataType type, ReduceOp op, Stream stream = {});
    /// Block r of send (count_per_rank elements) goes to rank r; block r of recv comes from rank r.
    Work all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type,
                    Stream stream = {});
    /// send_counts[r] elements go to rank r, recv_counts[r] come from it: the counts differ between
    /// ranks, and rank a's send_counts[b] must be rank b's recv_counts[a]. Not in place.
    Work all_to_all_v(const void* send, std::span<const std::size_t> send_counts, void* recv,
                      std::span<const std::size_t> recv_counts, DataType type, Stream stream = {});
    /// The root's recv = the ranks' send buffers in rank order; others may pass null. In place at
    /// the root: send is its block of recv.
    Work gather(const void* send, void* recv, std::size_t send_count, DataType type, int root,
                Stream stream = {});
    Work gather_v(const void* send, void* recv, std::span<const std::size_t> counts, DataType type,
                  int root, Stream stream = {});
    /// recv = this rank's block of the root's send; others may pass null. In place at the root:
    /// recv is its block of send.
    Work scatter(const void* send, void* recv, std::size_t recv_count, DataType type, int root,
                 Stream stream = {});
    Work scatter_v(const void* send, void* recv, std::span<const std::size_t> counts, DataType type,
                   int root, Stream stream = {});
    /// Point to point, matched in order for each pair of ranks. A send may wait for its recv: ranks
    /// that send to each other do so in a group, or on a queue.
    Work send(const void* buffer, std::size_t count, DataType type, int peer, Stream stream = {});
    Work recv(void* buffer, std::size_t count, DataType type, int peer, Stream stream = {});
    void barrier();

    /// Calls between group_start() and group_end() are one operation, on the stream of group_end():
    /// sends and receives proceed side by side, in whatever order the ranks named them, then come
    /// the collectives in order. Their own streams must be the same or none. Groups do not nest.
    void group_start();
    Work group_end(Stream stream = {});

    /// Memory for the buffers of collectives that is moved without copies in between, where the
    /// backend can. Collective; every rank asks for the same number of bytes. Uninitialised.
    [[nodiscard]] CommunicatorBuffer allocate(std::size_t bytes);

    /// A communicator of the ranks that passed the same color, ordered by key, then by rank.
    /// Collective. A rank with a negative color gets nothing.
    [[nodiscard]] std::optional<Communicator> split(int color, int key);

    /// Wakes every rank of the group that waits in a collective; it and all later calls throw
    /// AbortedError. With MPI among the backends, the buffers of calls that failed stay in MPI's
    /// hands, which cannot take back what it began: keep them for as long as this process uses
    /// another communicator.
    void abort(const std::string& reason);
    /// The surviving ranks' own communicator after others were lost; called by all survivors with
    /// the same list, ordered as before. This one is aborted with it. Throws Error{unsupported}
    /// where the backend can't (mpi).
    [[nodiscard]] Communicator shrink(std::span<const int> lost_ranks);
    CommunicatorStatus status() const;
    /// Throws what it failed with where it was aborted: for results on a GPU's stream, which come
    /// then, too, but are none. Any thread.
    void check() const;

    // Typed forms.
    template <class T>
    Work all_reduce(std::span<T> buffer, ReduceOp op = ReduceOp::sum, Stream stream = {}) {
        return all_reduce(buffer.data(), buffer.data(), buffer.size(), data_type_of<T>, op, stream);
    }
    template <class T>
    T all_reduce_value(T value, ReduceOp op = ReduceOp::sum) {
        all_reduce(&value, &value, 1, data_type_of<T>, op).wait();
        return value;
    }
    /// True on every rank when it is true on any: how ranks agree to stop or to save.
    bool any_rank(bool value) {
        return all_reduce_value<std::uint8_t>(value ? 1 : 0, ReduceOp::max) != 0;
    }

private:
    friend std::shared_ptr<CudaDevice> cuda_device_of(const Communicator& communicator);
    Communicator(std::shared_ptr<CommunicatorBackend> backend,
                 std::shared_ptr<FlightRecorder> recorder, const std::string& name,
                 std::shared_ptr<GenerationWatch> watch);
    Work submit(const CollectiveCall& call, Stream stream);

    std::shared_ptr<CommunicatorBackend> backend_;
    std::shared_ptr<CallDispatcher> dispatcher_;
    std::shared_ptr<const std::string> backend_reason_;
};

}  // namespace autolaunch
