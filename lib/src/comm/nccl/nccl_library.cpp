#include "comm/nccl/nccl_library.hpp"

#include "comm/nccl/shared_object.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

namespace autolaunch {

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1), "nccl.h is older than 2.18.1");

NcclLibrary NcclLibrary::load(const std::string& library) {
    const SharedObject object(library,
                              "put NCCL's folder on LD_LIBRARY_PATH, or use another backend");
    NcclLibrary nccl;
    object.require("ncclGetVersion", nccl.GetVersion);
    nccl.GetVersion(&nccl.version);
    if (nccl.version < NCCL_VERSION(2, 18, 1)) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("{} is NCCL {}", library, nccl.version_text()),
                    "backend nccl needs NCCL 2.18.1 or newer");
    }
#define AUTOLAUNCH_FIND(name) object.require("nccl" #name, nccl.name);
    AUTOLAUNCH_NCCL_FUNCTIONS(AUTOLAUNCH_FIND)
#undef AUTOLAUNCH_FIND
#define AUTOLAUNCH_TRY(name) object.find("nccl" #name, nccl.name);
    AUTOLAUNCH_TRY(MemAlloc)
    AUTOLAUNCH_TRY(MemFree)
    AUTOLAUNCH_TRY(CommRegister)
    AUTOLAUNCH_TRY(CommDeregister)
    AUTOLAUNCH_TRY(CommInitRankScalable)
    AUTOLAUNCH_TRY(CommWindowRegister)
    AUTOLAUNCH_TRY(CommWindowDeregister)
    AUTOLAUNCH_TRY(Gather)
    AUTOLAUNCH_TRY(Scatter)
    AUTOLAUNCH_TRY(CommRevoke)
#undef AUTOLAUNCH_TRY
    return nccl;
}

std::string NcclLibrary::version_text() const {
    // Since 2.9 a version is major * 10000 + minor * 100 + patch.
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace autolaunch
