#pragma once
#include "fsdp/communicator_watch.hpp"
#include "fsdp/model_device.hpp"

#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

namespace autolaunch::fsdp {

/// Training state where a checkpoint can read and write it: the state itself on the CPU; of a GPU's
/// memory a copy, which counts until the state changes.
///
/// Copies to the CPU's memory are on a stream of their own: they wait for what is on the trainer's
/// stream, and forget() and write_back() have that wait for them. The host waits for nothing but in
/// StateArrival::wait().
///
/// Owner: the model, and each optimizer. Threads: one. Blocks: only the destructor, for copies that
/// are on their way.
class StateMirror {
public:
    struct Reading {
        void* memory = nullptr;  ///< of the CPU; the address stays
        std::shared_ptr<const StateArrival> arrival;
    };

    /// `calls`: of the communicators that the state was made with.
    StateMirror(ModelDevice& device, std::shared_ptr<const CommunicatorWatch> calls)
        : device_(device), calls_(std::move(calls)) {}
    ~StateMirror();

    /// As the state is after what is on the stream. Whoever waits for it learns whether a
    /// collective before it failed.
    Reading read(void* memory, std::size_t bytes, Stream stream);
    /// What was written to the copies becomes the state, on the stream; nothing when the state
    /// changed since they were read.
    void write_back(Stream stream);
    /// What is put on the stream from here on changes the state: the copies count no longer.
    void forget(Stream stream);

private:
    struct Copy {
        CommunicatorBuffer host;
        bool is_current = false;
    };
    void wait_for_copies(Stream stream);

    ModelDevice& device_;
    std::shared_ptr<const CommunicatorWatch> calls_;
    std::map<void*, Copy> copies_;
    Fence written_back_;
    std::unique_ptr<Lane> lane_;  // last: it waits for the copies
};

/// Waits until all bytes are there.
void settle(State& state);

}  // namespace autolaunch::fsdp
