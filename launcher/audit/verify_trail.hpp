#pragma once
#include "audit/audit_chain.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A head that somebody else than the trail's owner keeps.
struct AnchoredHead {
    std::string digest;
    std::string by;                    ///< "journald", "s3://bucket/prefix"
    std::optional<std::uint32_t> uid;  ///< whose process gave it there, by root's word
    std::string locked_until;          ///< of a bucket's object; empty: not locked
};
/// By the number of the line.
using AnchoredHeads = std::multimap<std::uint64_t, AnchoredHead>;

/// What was found of one trail.
struct TrailVerdict {
    std::filesystem::path file;  ///< the current one
    std::size_t files = 0, lines = 0;
    std::string chain;
    std::uint32_t uid = 0;
    std::string user;
    std::optional<AuditHead> head;
    std::map<std::uint64_t, std::string> digests;  ///< of its lines, by number
    std::vector<std::string> problems;  ///< that prove that somebody has changed it, or lost it
    std::vector<std::string> remarks;   ///< that need not: a torn line, a clock that went back
    std::size_t anchored = 0;           ///< lines whose head is kept elsewhere, and is the same
    std::optional<std::uint64_t> anchored_through;
    std::vector<std::string> anchors;  ///< what was asked, and what it has
    bool whole() const { return problems.empty(); }
};

/// Reads all files of the trail, oldest first: digests, numbers, order, clock. `on_line` gets every
/// line that is one. Throws SystemError where one cannot be read.
TrailVerdict verify_files(
    const std::filesystem::path& current,
    const std::function<void(const AuditLine&, const std::string& text)>& on_line = {},
    const AnchoredHeads* heads = nullptr);

/// Compares what the trail's lines are with what is kept elsewhere.
void compare_with_anchors(TrailVerdict& verdict, const AnchoredHeads& heads);

}  // namespace autolaunch::launcher
