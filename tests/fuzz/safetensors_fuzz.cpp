// A safetensors file.
//
//     safetensors_fuzz CORPUS tests/fuzz/seeds/safetensors

#include "safetensors_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::check_safetensors_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
