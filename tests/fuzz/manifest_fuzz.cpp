// The text of manifest.json, signed anew.
//
//     manifest_fuzz CORPUS tests/fuzz/seeds/manifest

#include "manifest_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::check_manifest_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
