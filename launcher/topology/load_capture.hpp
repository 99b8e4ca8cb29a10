#pragma once
#include "topology/node_topology.hpp"

#include <autolaunch/error.hpp>

#include <string>

namespace autolaunch::launcher {

/// Another machine, from what was saved there. Reading it takes libraries (hwloc) that no launch
/// should pay for, so they are linked into autolaunch-capture.so, which is loaded here, when it is
/// needed (docs/adr/0011-saved-machines.md). Throws Error: {unsupported} where that file is not
/// beside the program, else what the reader throws. Blocks: while files are read.
NodeTopology load_capture(const std::string& path);

// Between the program and autolaunch-capture.so. Both are built together; the digest of the header
// that says what a topology is made of is the proof.

struct CaptureReply {
    NodeTopology topology;
    bool failed = false;
    ErrorCode code = ErrorCode::system;
    std::string what, hint;
};

/// False, and nothing done, where `layout` is not the file's own: it is of another build. Never
/// throws: program and file each have a C++ library of their own.
using ReadCaptureFunction = bool(const char* path, const char* layout, CaptureReply* reply);
inline constexpr const char* kReadCaptureName = "autolaunch_read_capture";

}  // namespace autolaunch::launcher
