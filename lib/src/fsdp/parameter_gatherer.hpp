#pragma once
#include "fsdp/bucket.hpp"
#include "fsdp/gather_slots.hpp"
#include "fsdp/lane.hpp"
#include "fsdp/model_device.hpp"

#include <array>
#include <deque>
#include <map>
#include <vector>

namespace autolaunch::fsdp {

/// Makes buckets whole: gathers them into slots or, where they are resident, in place, at most once
/// until the slot is wanted or the parameters change. On a GPU a gather waits for who read the
/// memory before, and for the optimizer.
///
/// Owner: the engine. Threads: one. Blocks: on the CPU, wait() until the gather is done; on a GPU,
/// the destructor until the parameters are read and written.
class ParameterGatherer {
public:
    /// Collective: allocates the slots, for trainable and for frozen buckets each as large as the
    /// largest needs. `hide`: ShardedModelOptions::find_dangling.
    ParameterGatherer(std::deque<Bucket>& buckets, ShardMesh& mesh, ModelDevice& device, Lane& lane,
                      std::size_t slots, bool hide = false);
    ParameterGatherer(const ParameterGatherer&) = delete;
    ParameterGatherer& operator=(const ParameterGatherer&) = delete;
    ~ParameterGatherer();

    /// The bucket is in use until close(); its gather is under way when it was not whole.
    void open(Bucket& bucket);
    void close(Bucket& bucket) noexcept;
    /// What is on the stream so far may still read an open bucket.
    void read_on(Bucket& bucket, Stream stream) noexcept;
    /// Starts to gather a bucket that will soon be opened; false where it is whole already.
    bool prefetch(Bucket& bucket);
    /// The stream waits until the bucket is whole.
    void wait(Bucket& bucket, Stream stream);
    /// Where an open bucket's arena is.
    std::byte* arena(const Bucket& bucket) const noexcept;
    /// The stream waits for every gather and every reader: it will write parameters.
    void begin_writing(Stream stream);
    /// The parameters changed, and are as they shall be after the fence: every bucket is gathered
    /// again.
    void invalidate(Fence written) noexcept;

    std::size_t slot_bytes() const noexcept;
    std::size_t gather_count() const noexcept {
        return gather_count_;
    }  ///< all-gathers so far, for tests

private:
    struct State {
        int scopes = 0;
        bool whole = false;  ///< resident buckets: gathered since the parameters changed
        Fence gather;
    };
    GatherSlots& slots_of(const Bucket& bucket) noexcept {
        return slots_[bucket.is_trainable() ? 1 : 0];
    }
    void gather(Bucket& bucket);

    ShardMesh& mesh_;
    ModelDevice& device_;
    Lane& lane_;
    std::vector<CommunicatorBuffer> memory_;
    std::array<GatherSlots, 2> slots_;  // for frozen and for trainable buckets
    std::vector<State> states_;         // by bucket
    std::map<const std::byte*, std::map<void*, Fence>>
        readers_;  // by arena, then by stream; of GPUs
    Fence written_;
    std::size_t gather_count_ = 0;
};

}  // namespace autolaunch::fsdp
