// What ranks print.
//
//     printed_line_fuzz CORPUS tests/fuzz/seeds/printed_line

#include "printed_line_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_printed_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
