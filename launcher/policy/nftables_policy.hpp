#pragma once
#include "site/site_settings.hpp"

#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Where the jobs of a cluster talk, as its administrator says it.
struct NftablesRequest {
    std::string interface;              ///< over which ranks reach each other: "ib0"
    std::vector<std::string> networks;  ///< NAME=CIDR[,CIDR...]; "nodes" is where ranks run
    std::pair<int, int> chosen_ports;   ///< that the kernel gives out: ip_local_port_range
};

/// A file for `nft -f`: who may begin a connection to the ports of jobs, and to those of
/// network_security.firewall_rules. Loading it again replaces its table; other tables are left.
/// `settings` may say nothing. Pure. Throws Error, which names the rule's line or the option.
std::string render_nftables(const SiteSettings& settings, const std::string& file,
                            const NftablesRequest& request);

}  // namespace autolaunch::launcher
