#pragma once
#include <cstdint>

namespace autolaunch::bench {

/// What the kernel has counted on the established TCP connections of this process.
struct TcpTraffic {
    std::uint64_t bytes_in = 0, bytes_out = 0, segments_in = 0, segments_out = 0;
};

/// Looks at the descriptors below `descriptors`.
TcpTraffic read_tcp_traffic(int descriptors);

}  // namespace autolaunch::bench
