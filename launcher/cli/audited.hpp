#pragma once
#include "audit/audit_trail.hpp"
#include "checkpoints/checkpoint_command.hpp"
#include "policy/judge_claim.hpp"
#include "spec/job_spec.hpp"

#include <string>

namespace autolaunch::launcher {

// What a person asks for, as lines of the audit trail (docs/audit.md). Nothing where there is none.
// All throw AuditMissing where it is required and cannot be kept, but for what is over already.

/// `to`: who gets the job to start it later; empty: it is started here and now.
void audit_submission(AuditTrail& trail, const JobSpec& spec, const std::string& version,
                      const std::string& to = {});
void audit_decision(AuditTrail& trail, const PolicyVerdict& verdict);
/// `autolaunch ckpt`: what is read, and with which keys.
void audit_before(AuditTrail& trail, const CheckpointRequest& request);
/// What was made, exported or deleted.
void audit_after(AuditTrail& trail, const CheckpointRequest& request,
                 const CheckpointOutcome& outcome);

}  // namespace autolaunch::launcher
