#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A port of an InfiniBand or RoCE adapter, as the kernel tells it.
struct HcaPort {
    std::string name;   ///< "mlx5_0 port 1"
    std::string state;  ///< "ACTIVE", "DOWN", "INIT", …; empty: not told
    bool operator==(const HcaPort&) const = default;
};

/// By name; none where there is no adapter. `sys` is for tests. Blocks: on sysfs, some 10 us a
/// port.
std::vector<HcaPort> read_hca_ports(const std::filesystem::path& sys = "/sys");

/// Those that were up, and are not any more, as sentences: "mlx5_0 port 1 is DOWN". Pure.
std::vector<std::string> ports_gone_down(const std::vector<HcaPort>& before,
                                         const std::vector<HcaPort>& now);

}  // namespace autolaunch::launcher
