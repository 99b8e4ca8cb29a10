// By itself, since <linux/tcp.h>, which knows the counters, and <netinet/tcp.h> exclude each other.
#include "tcp_traffic.hpp"

#include <linux/tcp.h>
#include <sys/socket.h>

namespace autolaunch::bench {

TcpTraffic read_tcp_traffic(int descriptors) {
    constexpr int kTcp = 6;
    constexpr int kEstablished = 1;
    TcpTraffic sum;
    for (int fd = 0; fd < descriptors; ++fd) {
        tcp_info info{};
        socklen_t bytes = sizeof info;
        if (::getsockopt(fd, kTcp, TCP_INFO, &info, &bytes) != 0 || info.tcpi_state != kEstablished)
            continue;
        sum.bytes_in += info.tcpi_bytes_received;
        sum.bytes_out += info.tcpi_bytes_acked;
        sum.segments_in += info.tcpi_segs_in;
        sum.segments_out += info.tcpi_segs_out;
    }
    return sum;
}

}  // namespace autolaunch::bench
