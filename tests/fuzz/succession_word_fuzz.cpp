// What another agent says on who is head.
//
//     succession_word_fuzz CORPUS tests/fuzz/seeds/succession_word

#include "succession_word_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_succession_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
