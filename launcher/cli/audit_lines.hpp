#pragma once
#include "audit/audit_trail.hpp"
#include "run/job_witness.hpp"

namespace autolaunch::launcher {

/// Writes what a launch does into the trail (docs/audit.md): what this node's part was given, which
/// keys it uses, the events of the job that are recorded, its end. begins() throws AuditMissing. A
/// job whose trail is required and cannot go on is stopped as by SIGTERM, and ends with 73. The
/// trail must outlive it; nothing where there is none.
JobWitness audit_witness(AuditTrail& trail);

}  // namespace autolaunch::launcher
