// Bytes from a peer: whatever they are, they decode or are refused, and what was decoded encodes to
// what decodes the same.
//
//     control_message_fuzz CORPUS tests/fuzz/seeds/control_message

#include "control_message_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::control::check_control_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
