#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

namespace autolaunch::launcher {

/// Bytes that came and went over each TCP connection of these processes, by the socket's inode, as
/// far as the other end has confirmed them. Of no other process: that is what a node's own counters
/// cannot tell. Empty: none, or the kernel does not say. Blocks: on /proc and a netlink socket,
/// about 1 ms for a thousand connections.
std::map<std::uint64_t, std::uint64_t> tcp_traffic_of(const std::vector<pid_t>& processes);

/// What is more in `now`: a connection that is new counts whole, one that is gone not at all. Pure.
std::uint64_t traffic_between(const std::map<std::uint64_t, std::uint64_t>& before,
                              const std::map<std::uint64_t, std::uint64_t>& now);

}  // namespace autolaunch::launcher
