// The start of a file that may be one of age.
//
//     age_header_fuzz CORPUS tests/fuzz/seeds/age_header

#include "age_header_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::age::check_header_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
