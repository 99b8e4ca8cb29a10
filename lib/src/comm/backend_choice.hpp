#pragma once
// Which backend the world communicator uses. Pure.
#include <autolaunch/session.hpp>

#include <string_view>

namespace autolaunch {

enum class BackendChoice { self, shm, mpi, shm_mpi, nccl };

struct NcclFacts {
    bool built_in = false;
    bool has_own_gpu = false;  ///< every rank of this node has a GPU
};

/// For CommunicatorOptions::backend and this rank's place. Throws Error{invalid_argument} for an
/// unknown name and Error{unsupported} for a backend that cannot serve these ranks or is not built
/// in.
BackendChoice choose_backend(std::string_view wanted, const RankInfo& info, bool mpi_built_in,
                             NcclFacts nccl = {});

}  // namespace autolaunch
