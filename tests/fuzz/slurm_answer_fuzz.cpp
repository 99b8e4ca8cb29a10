// What scontrol and sacctmgr print, or a wrapper in their place.
//
//     slurm_answer_fuzz CORPUS tests/fuzz/seeds/slurm_answer

#include "slurm_answer_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_slurm_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
