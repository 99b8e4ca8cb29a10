// Lines of nccl.conf, and what only looks like them.
//
//     nccl_conf_fuzz CORPUS tests/fuzz/seeds/nccl_conf

#include "nccl_conf_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_nccl_conf_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
