#pragma once
#include "audit/audit_settings.hpp"
#include "audit/verify_trail.hpp"
#include "base/environment.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One line of `journalctl -o json`; false where it is no entry of a trail. Pure.
bool read_journal_entry(const std::string& line, std::uint64_t& seq, AnchoredHead& head);

struct Anchors {
    AnchoredHeads heads;
    std::vector<std::string> told;  ///< of each that was asked what it has, or why it says nothing
    bool in_vain = false;           ///< the one that the settings name has nothing, or did not say
};

/// What others than the trail's owner keep of it: journald where journalctl can be run, and a
/// bucket where the settings name one. Blocks: journalctl 60 s at most, a bucket as S3Anchor does.
Anchors read_anchors(const std::string& chain, const AuditSettings& settings,
                     const Environment& environment);

}  // namespace autolaunch::launcher
