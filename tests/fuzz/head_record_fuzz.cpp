// A head.json, by which a running job is found.
//
//     head_record_fuzz CORPUS tests/fuzz/seeds/head_record

#include "head_record_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_head_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
