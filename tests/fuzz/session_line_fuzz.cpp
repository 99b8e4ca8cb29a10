// Bytes on the session socket, of a rank or an agent.
//
//     session_line_fuzz CORPUS tests/fuzz/seeds/session_line

#include "session_line_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::session::check_session_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
