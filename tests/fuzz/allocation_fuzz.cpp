// Variables of schedulers, files of hosts, slurm.conf.
//
//     allocation_fuzz CORPUS tests/fuzz/seeds/allocation

#include "allocation_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_allocation_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
