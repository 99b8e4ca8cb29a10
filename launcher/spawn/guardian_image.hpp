#pragma once
#include <cstddef>

namespace autolaunch::launcher {

/// The guardian as a program of its own (guardian_main.cpp), an ELF file; no bytes in a build
/// without it. The build makes the source from that program.
extern const unsigned char kGuardianImage[];
extern const std::size_t kGuardianImageBytes;

}  // namespace autolaunch::launcher
