#pragma once
// The backends that mpi_conformance runs the suite on, made without a session.
#include "comm/backend.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace autolaunch::conformance {

struct BackendOptions {
    std::string backend = "mpi";  ///< "mpi", "shm" or "shm+mpi"
    int nodes = 1;                ///< shm+mpi: the ranks are divided in so many pretended nodes
    std::size_t piece_bytes = 0;
    bool fixed_order = false;
    bool check_calls = false;
    std::chrono::milliseconds timeout{100'000};
};

/// Collective over the ranks that mpirun started.
std::shared_ptr<CommunicatorBackend> make_backend(const BackendOptions& options);

}  // namespace autolaunch::conformance
