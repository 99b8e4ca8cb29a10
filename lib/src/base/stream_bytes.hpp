#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>

namespace autolaunch {

/// memcpy() past the caches: for large copies that nobody reads soon. The lines that are written
/// are not read before, which is a third less for the memory to do, and the caches keep what they
/// had.
AUTOLAUNCH_API void stream_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace autolaunch
