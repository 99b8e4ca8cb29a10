#pragma once
#include "audit/audit_settings.hpp"
#include "base/environment.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class AuditAction { verify, show };

/// What `autolaunch audit` was asked for.
struct AuditRequest {
    AuditAction action = AuditAction::verify;
    /// Files, run directories, or folders of trails; none: all that the settings lead to.
    std::vector<std::string> paths;
    std::string job, user, kind, since;  ///< show's; empty: all
    std::string anchor;                  ///< verify's, in place of the settings'
    bool json = false;
};

struct AuditOutcome {
    std::string text;
    int exit_code = 0;  ///< 1: verify found that a trail is not whole
};

/// Does it. Throws Error: ExitError{66} where there is no trail, {64} for a time that is none.
AuditOutcome run_audit_command(const AuditRequest& request, const AuditSettings& settings,
                               const Environment& environment, const std::string& host);

}  // namespace autolaunch::launcher
