// Files of keys and credentials.
//
//     key_text_fuzz CORPUS tests/fuzz/seeds/key_text

#include "key_text_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::check_key_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
