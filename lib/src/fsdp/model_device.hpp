#pragma once
// Where a model lives and what the engine has done there: the CPU, or one GPU. The one place that
// knows which.
#include "fsdp/fence.hpp"
#include "fsdp/lane.hpp"
#include "fsdp/ordered_sums.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace autolaunch::fsdp {

/// Work on a stream: at once and blocking on the CPU, in the stream's order on a GPU, where the
/// host waits for nothing but write() and read().
///
/// Owner: the engine. Threads: the trainer's; the work on arrays also a lane's. Errors:
/// Error{system}, and Error{unsupported} for streams of elsewhere.
class AUTOLAUNCH_API ModelDevice {
public:
    /// As the communicator is. Throws Error{unsupported} for a GPU where the library was built
    /// without kernels.
    static std::unique_ptr<ModelDevice> of(const Communicator& communicator);
    virtual ~ModelDevice() = default;

    virtual bool is_gpu() const noexcept = 0;
    /// What the trainer means by the stream that it gave: no stream is CUDA's default stream.
    virtual Stream stream_for(Stream given) const = 0;

    /// Zeroed, on a page; what `communicator` moves without copies, where there is one. Then
    /// collective.
    virtual CommunicatorBuffer allocate(const std::optional<Communicator>& communicator,
                                        std::size_t bytes) = 0;
    /// Zeroed memory of the CPU that copies go to and from without a detour.
    virtual CommunicatorBuffer allocate_on_host(std::size_t bytes) = 0;
    /// Beside the computation, or in the caller's thread or order of work.
    virtual std::unique_ptr<Lane> make_lane(std::vector<Communicator> communicators,
                                            bool beside) = 0;

    /// Null where communicators sum in fixed order by themselves. Collective: with memory for so
    /// many elements on their way (exchange_elements()), which `communicator` moves without copies.
    virtual std::unique_ptr<OrderedSums> make_ordered_sums(
        const std::optional<Communicator>& communicator, std::size_t elements) = 0;

    /// For whoever waits for what is on its way to the CPU's memory; it may outlive the model. Null
    /// on the CPU.
    virtual std::shared_ptr<const StateArrival> arrival_of(const Fence& fence) const = 0;

    /// All that was put on the stream so far.
    virtual Fence record(Stream stream) = 0;
    /// What is put on the stream from here on comes after the fence.
    virtual void wait(Stream stream, const Fence& fence) = 0;
    /// The caller waits.
    virtual void wait(const Fence& fence) = 0;

    virtual void fill(void* memory, std::uint8_t value, std::size_t bytes, Stream stream) = 0;
    virtual void copy(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
    /// As cast.hpp has them.
    virtual void cast(void* to, DataType to_type, const void* from, DataType from_type,
                      std::size_t count, Stream stream) = 0;
    virtual void accumulate(void* to, DataType to_type, const void* from, DataType from_type,
                            std::size_t count, Stream stream) = 0;
    /// Lowers *first, which is memory of this device, to the index of the first NaN or infinity.
    virtual void find_nonfinite(const void* values, DataType type, std::size_t count,
                                std::uint64_t* first, Stream stream) = 0;

    /// Between the CPU's memory and the device's, after what is on the stream; done when they
    /// return.
    virtual void write(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
    virtual void read(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
};

}  // namespace autolaunch::fsdp
