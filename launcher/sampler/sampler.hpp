#pragma once

namespace autolaunch::launcher {

/// The hidden subcommand that the agent starts, and nobody else: measures this node until its agent
/// closes the socket that is descriptor 0. A process of its own, since a driver may crash it or
/// keep it in the kernel. Does not return.
inline constexpr char kSamplerArgument[] = "--internal-sampler";
[[noreturn]] void run_sampler();

}  // namespace autolaunch::launcher
