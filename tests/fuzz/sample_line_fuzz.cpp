// Files of samples, RUN_DIR/samples/NODE.jsonl, and the kernel's texts that they are made of.
//
//     sample_line_fuzz CORPUS tests/fuzz/seeds/sample_line

#include "sample_line_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_sample_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
