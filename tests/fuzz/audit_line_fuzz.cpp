// Lines of an audit trail, as somebody else may have written them.
//
//     audit_line_fuzz CORPUS tests/fuzz/seeds/audit_line

#include "audit_line_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_audit_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
