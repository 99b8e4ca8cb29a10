// The administrator's file: YAML, its sections, roles and limits.
//
//     site_yaml_fuzz CORPUS tests/fuzz/seeds/site_yaml

#include "site_yaml_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_site_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
