// Lineages, what copies in memory hold, and what ranks say of checkpoints.
//
//     checkpoint_note_fuzz CORPUS tests/fuzz/seeds/checkpoint_note

#include "checkpoint_note_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::check_note_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
