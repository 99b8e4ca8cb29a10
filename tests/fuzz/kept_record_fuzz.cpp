// What earlier starts of a job have left in its run directory.
//
//     kept_record_fuzz CORPUS tests/fuzz/seeds/kept_record

#include "kept_record_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_kept_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
