// What a rank out of its mind may leave in its flight recorder.
//
//     flight_memory_fuzz CORPUS tests/fuzz/seeds/flight_memory

#include "flight_memory_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_flight_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
