// Any file that somebody gives to `autolaunch lint`.
//
//     lint_file_fuzz CORPUS tests/fuzz/seeds/lint_file

#include "lint_file_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_lint_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
