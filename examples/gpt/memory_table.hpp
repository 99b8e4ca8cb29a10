#pragma once
#include <autolaunch/fsdp/sharded_model.hpp>

#include <cstddef>
#include <string>

namespace gpt {

/// Bytes of activations and of what else computing takes, as planned and as they are.
struct ActivationMemory {
    std::size_t planned = 0;
    std::size_t allocated = 0;
};

/// What a rank's memory was planned to be, beside what it is: an item a line, and what takes most.
std::string memory_table(const autolaunch::fsdp::MemoryPlan& planned,
                         const autolaunch::fsdp::ModelMemory& allocated,
                         const ActivationMemory& activations,
                         autolaunch::fsdp::ShardingStrategy strategy);

/// "1.5 MB"; decimal, as data sheets count.
std::string in_bytes(std::size_t bytes);

/// Of this process, as the kernel counts: memory that ranks share in equal parts (Pss). 0: it does
/// not say.
std::size_t resident_bytes();

}  // namespace gpt
