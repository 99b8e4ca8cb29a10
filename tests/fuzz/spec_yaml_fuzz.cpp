// A spec or a site file: YAML, and what only looks like it.
//
//     spec_yaml_fuzz CORPUS tests/fuzz/seeds/spec_yaml

#include "spec_yaml_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_yaml_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
