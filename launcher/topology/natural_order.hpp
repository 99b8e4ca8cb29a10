#pragma once
#include <string_view>

namespace autolaunch::launcher {

/// The order in which people count names: mlx5_2 before mlx5_10, eth0 before eth1. Runs of decimal
/// digits compare as numbers of any length, all else by bytes; names that differ only in leading
/// zeros compare by bytes. A strict weak order. Not for PCI addresses, whose digits are hexadecimal
/// and of one length.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace autolaunch::launcher
