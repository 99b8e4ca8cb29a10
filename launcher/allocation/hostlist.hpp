#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

inline constexpr std::size_t kMaxHosts = 65536;

/// Expands Slurm's host list form, as `scontrol show hostnames` does, in the order written:
///     list  := term ("," term)*          term := (text | "[" list "]")+
/// Inside brackets a term of the form LO-HI, both decimal, counts up and keeps LO's width: "n[08-10]" is n08 n09 n10.
/// Several brackets multiply, the leftmost slowest: "r[0-1]n[1-2]" is r0n1 r0n2 r1n1 r1n2. Text may follow brackets.
/// Throws Error{invalid_argument} for a malformed list or one of more than kMaxHosts names. Pure.
std::vector<std::string> expand_hostlist(std::string_view text);

/// Slurm's repetition form for one number a node: "2(x3),1" is 2 2 2 1. Same errors and bound.
std::vector<int> expand_counts(std::string_view text);

}  // namespace autolaunch::launcher
