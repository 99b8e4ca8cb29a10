#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

inline constexpr std::size_t kMaxHosts = std::size_t{1} << 16;  ///< as many as Slurm can have
inline constexpr std::size_t kMaxHostName = 255;                ///< bytes; what DNS allows
inline constexpr std::size_t kMaxHostDigits = 18;  ///< of a number that counts; fits long long
inline constexpr std::size_t kMaxHostlistBytes = std::size_t{64} << 20;

/// Expands Slurm's host list form, as `scontrol show hostnames` does, in the order written:
///     list := term ("," term)*      term := (text | "[" list "]")+
/// Inside brackets a term of the form LO-HI, both decimal, counts up and keeps LO's width:
/// "n[08-10]" is n08 n09 n10. Several brackets multiply. The last runs fastest, then the first, the
/// second, …: "r[0-1]n[1-2]" is r0n1 r0n2 r1n1 r1n2, and "r[0-1]c[0-1]n1" with a third bracket is
/// r0c0… r1c0… r0c1… r1c1…, which is Slurm's order. Outside brackets blanks and line ends may stand
/// around a comma or for it. Beyond Slurm: steps, "n[1-9:2]" is n1 n3 n5 n7 n9; text after
/// brackets, "n[1-2]-ib" (Slurm knows it from 23.02); brackets and words within brackets,
/// "[a[1-2],b]x" is a1x a2x bx. Empty names and unmatched brackets are errors. Throws
/// Error{invalid_argument} naming the position for a malformed list, a name longer than
/// kMaxHostName, or a list of more than `most` names or kMaxHostlistBytes of them, before it is
/// built. Pure, linear in its result.
std::vector<std::string> expand_hostlist(std::string_view text, std::size_t most = kMaxHosts);

/// The other way, keeping the order: expand_hostlist(compress_hostlist(names)) == names. One
/// bracket a term, so that any Slurm reads it where the digits come last. Throws
/// Error{invalid_argument} for a name that a list cannot hold: empty, longer than kMaxHostName, or
/// with a bracket, a comma or a blank in it. Pure, linear.
std::string compress_hostlist(std::span<const std::string> names);

/// Slurm's repetition form for one number a node: "2(x3),1" is 2 2 2 1. Same errors and bound.
std::vector<int> expand_counts(std::string_view text);

}  // namespace autolaunch::launcher
