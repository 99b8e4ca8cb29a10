#pragma once
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

class Session;
class CommunicatorBackend;  // private: lib/src/comm/backend.hpp

struct CommunicatorOptions {
    /// "auto", "self" (one rank), "shm" (all ranks on one node) or "mpi" (Open MPI or another MPI that started us, or
    /// that autolaunch started through PMI). auto: self for one rank; mpi under an MPI launcher; else shm.
    std::string backend = "auto";
    /// No collective takes longer, or it throws TimeoutError and the communicator is aborted. NCCL's watchdog's
    /// default.
    std::chrono::milliseconds timeout{600'000};
};

/// A collective that was put on a stream. Errors surface in wait().
class AUTOLAUNCH_API Work {
public:
    class State;
    Work() = default;  ///< already complete
    explicit Work(std::shared_ptr<State> state);

    bool is_completed() const;
    /// Returns when the operation is complete; throws what it failed with. The deadline is the communicator's.
    void wait();

private:
    std::shared_ptr<State> state_;
};

enum class CommunicatorStatus { ok, aborted };

/// A group of ranks that call collectives together, in the same order, with the same counts and types. A handle: copies
/// share one group.
///
/// Threads: one at a time, except abort() and status(), which any thread may call. Blocks: with CPU backends each
/// collective until it is done, at most CommunicatorOptions::timeout. Counts are elements, not bytes. `send == recv`
/// means in place wherever a function has both; otherwise the two must not overlap.
class AUTOLAUNCH_API Communicator {
public:
    /// All ranks of the job. Collective: every rank must call it.
    static Communicator world(Session& session, const CommunicatorOptions& options = {});
    /// Around a backend that the caller made; for tests and for backends outside the library.
    explicit Communicator(std::shared_ptr<CommunicatorBackend> backend);

    int rank() const noexcept;
    int size() const noexcept;
    std::string_view backend() const noexcept;  ///< "self", "shm", "mpi", …

    /// recv[i] = op over ranks of send[i], for i < count; equal to the last bit on all ranks.
    Work all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, Stream stream = {});
    /// recv = the ranks' send buffers in rank order: size() * send_count elements. In place: send == recv + rank() *
    /// send_count.
    Work all_gather(const void* send, void* recv, std::size_t send_count, DataType type, Stream stream = {});
    /// recv = this rank's recv_count elements of the reduction of send, which has size() * recv_count elements. In
    /// place: recv == send + rank() * recv_count.
    Work reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp op,
                        Stream stream = {});
    Work broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream = {});
    /// Block r of send (count_per_rank elements) goes to rank r; block r of recv comes from rank r.
    Work all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type, Stream stream = {});
    /// Point to point, matched in order for each pair of ranks.
    Work send(const void* buffer, std::size_t count, DataType type, int peer, Stream stream = {});
    Work recv(void* buffer, std::size_t count, DataType type, int peer, Stream stream = {});
    void barrier();

    /// A communicator of the ranks that passed the same color, ordered by key, then by rank. Collective. A rank with a
    /// negative color gets nothing.
    std::optional<Communicator> split(int color, int key);

    /// Wakes every rank of the group that waits in a collective; it and all later calls throw AbortedError.
    void abort(const std::string& reason);
    CommunicatorStatus status() const;

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
    bool any_rank(bool value) { return all_reduce_value<std::uint8_t>(value ? 1 : 0, ReduceOp::max) != 0; }

private:
    std::shared_ptr<CommunicatorBackend> backend_;
};

}  // namespace autolaunch
