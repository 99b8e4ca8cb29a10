#include "comm/backend_choice.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <array>
#include <string>

namespace autolaunch {
namespace {

constexpr char kBuildHint[] = "build with AUTOLAUNCH_WITH_MPI=ON";
constexpr char kServeHint[] =
    "set trainer.mpi to pmix (or pmi1 for MPICH), so that autolaunch serves MPI to its ranks";
constexpr char kLaunchHint[] =
    "start the ranks by autolaunch or through MPI (mpirun, or srun --mpi=pmix), or set backend to "
    "\"mpi\" if they can "
    "reach each other that way";

bool on_one_node(const RankInfo& info) {
    return info.node_count == 1 && info.local_world_size == info.world_size;
}

BackendChoice choose_automatically(const RankInfo& info, bool mpi_built_in) {
    if (info.world_size == 1)
        return BackendChoice::self;
    if (on_one_node(info))
        return BackendChoice::shm;
    if (mpi_built_in && (info.serves_mpi || info.launched_by == LaunchedBy::mpi))
        return BackendChoice::shm_mpi;
    throw Error(
        ErrorCode::unsupported,
        fmt::format("no backend joins {} CPU ranks on {} nodes", info.world_size, info.node_count),
        !mpi_built_in                                ? kBuildHint
        : info.launched_by == LaunchedBy::autolaunch ? kServeHint
                                                     : kLaunchHint);
}

[[noreturn]] void refuse_unknown(std::string_view wanted) {
    const std::array<std::string, 7> names = {"auto", "cpu",     "self", "shm",
                                              "mpi",  "shm+mpi", "nccl"};
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no communicator backend '{}'{}", wanted,
                            nearest_asked(wanted, names)),
                fmt::format("there are {}", join(names, ", ")));
}

}  // namespace

BackendChoice choose_backend(std::string_view wanted, const RankInfo& info, bool mpi_built_in,
                             NcclFacts nccl) {
    if (wanted == "auto" && nccl.built_in && nccl.has_own_gpu)
        return BackendChoice::nccl;
    if (wanted == "auto" || wanted == "cpu")
        return choose_automatically(info, mpi_built_in);
    if (wanted == "nccl") {
        if (nccl.built_in)
            return BackendChoice::nccl;
        throw Error(ErrorCode::unsupported, "backend nccl is not in this build",
                    "build with AUTOLAUNCH_WITH_CUDA=ON and AUTOLAUNCH_WITH_NCCL=ON");
    }
    if (wanted == "self") {
        if (info.world_size == 1)
            return BackendChoice::self;
        throw Error(ErrorCode::unsupported,
                    fmt::format("backend self serves one rank, not {}", info.world_size));
    }
    if (wanted == "shm") {
        if (on_one_node(info))
            return BackendChoice::shm;
        throw Error(ErrorCode::unsupported,
                    fmt::format("backend shm serves one node, not {}: here are {} of {} ranks",
                                info.node_count, info.local_world_size, info.world_size),
                    "set backend to \"mpi\"");
    }
    if (wanted == "mpi" || wanted == "shm+mpi") {
        if (!mpi_built_in)
            throw Error(ErrorCode::unsupported, "backend mpi is not in this build", kBuildHint);
        if (info.launched_by == LaunchedBy::autolaunch && info.world_size > 1 && !info.serves_mpi)
            throw Error(ErrorCode::unsupported,
                        "MPI would take each rank for rank 0 of 1: nobody serves it", kServeHint);
        if (wanted == "mpi")
            return BackendChoice::mpi;
        return on_one_node(info) ? BackendChoice::shm : BackendChoice::shm_mpi;
    }
    refuse_unknown(wanted);
}

}  // namespace autolaunch
