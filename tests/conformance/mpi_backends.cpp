#include "mpi_backends.hpp"

#include "comm/comparing_backend.hpp"
#include "comm/hierarchical/hierarchical_backend.hpp"
#include "comm/hierarchical/node_plan.hpp"
#include "comm/mpi/mpi_backend.hpp"
#include "comm/shm/shm_backend.hpp"

#include <array>
#include <cstring>

namespace autolaunch::conformance {
namespace {

/// Shared memory of the ranks of `among`, which carries its address.
std::shared_ptr<CommunicatorBackend> make_shm(CommunicatorBackend& among,
                                              std::chrono::milliseconds timeout) {
    std::array<char, 512> address{};
    const auto broadcast = [&] {
        among.start({.kind = CollectiveKind::broadcast,
                     .recv = address.data(),
                     .count = address.size(),
                     .type = DataType::u8,
                     .root = 0},
                    {});
        return std::string(address.data());
    };
    const ShmRendezvous rendezvous{[&](const std::string& text) {
                                       std::memcpy(address.data(), text.data(), text.size());
                                       broadcast();
                                   },
                                   [&](std::chrono::milliseconds) { return broadcast(); }};
    return ShmBackend::create(rendezvous, among.rank(), among.size(), timeout);
}

}  // namespace

std::shared_ptr<CommunicatorBackend> make_backend(const BackendOptions& options) {
    MpiOptions mpi;
    mpi.timeout = options.timeout;
    if (options.piece_bytes != 0)
        mpi.piece_bytes = options.piece_bytes;
    std::shared_ptr<CommunicatorBackend> backend = MpiBackend::world(mpi);
    if (options.backend == "shm")
        backend = make_shm(*backend, options.timeout);
    if (options.backend == "shm+mpi") {
        const int each = backend->size() / options.nodes;
        auto node = backend->split(backend->rank() / each, backend->rank());
        auto local = make_shm(*node, options.timeout);
        backend = HierarchicalBackend::create(std::move(local), std::move(backend),
                                              {options.nodes, each, {}}, options.fixed_order);
    }
    if (options.check_calls)
        backend = std::make_shared<ComparingBackend>(std::move(backend));
    return backend;
}

}  // namespace autolaunch::conformance
