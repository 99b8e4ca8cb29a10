#pragma once
#include "base/environment.hpp"
#include "site/site_settings.hpp"

#include <filesystem>
#include <optional>
#include <set>
#include <string>

namespace autolaunch::launcher {

/// What is recorded, where, and what follows where it cannot be: the section `audit` of the
/// administrator's file and of the job's spec, together (docs/audit.md).
struct AuditSettings {
    bool enabled = false;
    std::filesystem::path directory;  ///< of all users; empty: the user's own state folder
    bool required = false;            ///< without the trail, or its anchor, nothing starts
    std::string anchor;               ///< "journald", "s3://…"; empty: journald where it is there
    std::optional<int> keep_days;
    std::set<std::string, std::less<>> kinds;  ///< empty: all

    bool records(std::string_view kind) const;
};

/// Pure.
AuditSettings audit_settings_of(const SiteSettings& site);

/// Where this user's trail of this node is: DIRECTORY/UID/HOST.jsonl, or
/// ~/.local/state/autolaunch/audit/HOST.jsonl. Throws Error where there is no such place.
std::filesystem::path audit_file_of(const AuditSettings& settings, const Environment& environment,
                                    const std::string& host);

}  // namespace autolaunch::launcher
