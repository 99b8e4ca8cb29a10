// What Slurm says of jobs and of the cluster, and batch scripts.
//
//     slurm_record_fuzz CORPUS tests/fuzz/seeds/slurm_record

#include "slurm_record_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_slurm_record_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
