#pragma once
#include <autolaunch/cxx20.hpp>

#include <string>

namespace autolaunch {

/// Bytes that mean something to the trainer alone, saved with the tensors: a random generator's
/// state, a data loader's cursor. Stored as U8 tensors (docs/checkpoint-format.md).
struct OpaqueState {
    std::string name;  ///< unique among them
    std::string bytes = {};
    bool per_rank =
        false;  ///< every rank saves its own under this name; otherwise rank 0's are kept
};

}  // namespace autolaunch
