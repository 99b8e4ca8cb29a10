#pragma once
#include "doctor/finding.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// Whether the rails of neighbours reach each other: interface k of a node the k-th of the next, and
// the one beside it.

/// An active port's network interface and its address.
struct Rail {
    std::string hca, netdev, address;
    bool operator==(const Rail&) const = default;
};
/// The fact "rails": "mlx5_0/eth2/10.1.0.5 mlx5_1/eth3/10.2.0.5".
std::string rails_text(std::span<const Rail> rails);
std::vector<Rail> rails_from(std::string_view text);

/// One address to be asked for.
struct RailTarget {
    std::string netdev, source;  ///< ours: from here
    std::string address, name;   ///< theirs, and how to speak of it: "mlx5_0 of node2"
    bool same_rail = true;
    bool operator==(const RailTarget&) const = default;
};
/// What that node is to ask for: the rails of the next node, which has as many. Nothing in a job of
/// one node, and where no rail has an address. Pure.
std::vector<RailTarget> rail_targets(std::span<const NodeReport> reports, std::size_t node);
std::string encode_targets(const std::vector<RailTarget>& targets);
/// Throws Error{corrupt}.
std::vector<RailTarget> decode_targets(std::string_view text);

enum class Reach { reached, silent, cannot_ask };
/// What the answers mean: a report with findings of the check "rails". Pure.
NodeReport judge_rails(std::span<const RailTarget> targets, std::span<const Reach> answers);

}  // namespace autolaunch::launcher
