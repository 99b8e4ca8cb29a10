// What processes of ours say through pipes, and agents on secrets and connections.
//
//     helper_word_fuzz CORPUS tests/fuzz/seeds/helper_word

#include "helper_word_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_helper_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
