#pragma once
#include "fsdp/model_device.hpp"

#include <cstddef>
#include <map>

namespace autolaunch::fsdp {

/// Training state where a checkpoint can read and write it: the state itself on the CPU; of a GPU's memory a copy,
/// which counts until the state changes.
///
/// Owner: the model, and each optimizer. Threads: one. Blocks: for the copies.
class StateMirror {
public:
    explicit StateMirror(ModelDevice& device) : device_(device) {}

    /// As it is after what is on the stream. The address stays.
    void* read(void* memory, std::size_t bytes, Stream stream);
    /// What was written to the copies becomes the state; nothing when the state changed since they were read.
    void write_back(Stream stream);
    /// The state changes: the copies count no longer.
    void forget() noexcept;

private:
    struct Copy {
        CommunicatorBuffer host;
        bool is_current = false;
    };
    ModelDevice& device_;
    std::map<void*, Copy> copies_;
};

}  // namespace autolaunch::fsdp
