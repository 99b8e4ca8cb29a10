// Files of a run that `autolaunch top` follows.
//
//     run_view_fuzz CORPUS tests/fuzz/seeds/run_view

#include "run_view_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_view_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
