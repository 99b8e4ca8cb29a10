#pragma once
#include <cstdint>

namespace autolaunch::launcher {

/// Equal on nodes that run the same build of this program: of the build id that the linker left in
/// it, or of the whole file where it left none. Throws SystemError when the file cannot be read.
std::uint64_t program_digest();

}  // namespace autolaunch::launcher
