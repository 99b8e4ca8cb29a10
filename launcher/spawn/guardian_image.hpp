#pragma once
#include <cstddef>

namespace autolaunch::launcher {

/// The guardian as a program of its own (guardian_main.cpp), an ELF file. The build makes the
/// source of this from that program, which carries none.
extern const unsigned char kGuardianImage[];
extern const std::size_t kGuardianImageBytes;

}  // namespace autolaunch::launcher
