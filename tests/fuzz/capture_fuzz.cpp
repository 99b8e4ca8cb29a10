// A file that was saved on another machine, NCCL's XML or nvidia-smi's table: a machine that holds
// together, or refused.
//
//     capture_fuzz CORPUS tests/data/topology tests/fuzz/seeds/capture

#include "capture_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::capture::check_capture_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
