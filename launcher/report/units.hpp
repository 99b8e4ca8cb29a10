#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace autolaunch::launcher {

/// "8 ms", "0.4 s", "63 s", "3 min 12 s", "2 h 5 min", "3 d 4 h".
std::string format_duration(std::chrono::milliseconds duration);
/// "950", "412k", "1.2M", "3.4G": three digits at most.
std::string format_rate(double number);
/// "812 B", "12.3 MB" (powers of ten).
std::string format_bytes(std::uint64_t bytes);

}  // namespace autolaunch::launcher
