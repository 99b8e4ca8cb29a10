#pragma once
#include <map>
#include <string>

namespace autolaunch::launcher {

/// What the firmware says this machine is: "sys_vendor", "product_name" and "chassis_asset_tag" of
/// /sys/class/dmi/id. Those that are missing are left out (there is no DMI on many ARM machines).
/// Throws nothing.
std::map<std::string, std::string> read_machine_identity(const std::string& sysfs_root = "/sys");

}  // namespace autolaunch::launcher
