// Dumps of PyTorch's flight recorder, pickled or JSON.
//
//     torch_dump_fuzz CORPUS tests/fuzz/seeds/torch_dump

#include "torch_dump_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_torch_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
