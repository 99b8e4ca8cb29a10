// The list of files that a mover gets from another, as anything.
//
//     hand_over_list_fuzz CORPUS tests/fuzz/seeds/hand_over_list

#include "hand_over_list_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_hand_over_list({reinterpret_cast<const char*>(data), size});
    return 0;
}
