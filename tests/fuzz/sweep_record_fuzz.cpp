// Records of a sweep's elements, in the folder that they share.
//
//     sweep_record_fuzz CORPUS tests/fuzz/seeds/sweep_record

#include "sweep_record_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_sweep_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
