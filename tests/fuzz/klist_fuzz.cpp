// What klist prints of a cache of tickets, as anything.
//
//     klist_fuzz CORPUS tests/fuzz/seeds/klist

#include "klist_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_klist_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
