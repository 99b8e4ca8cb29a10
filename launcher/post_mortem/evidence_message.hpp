#pragma once
#include "control/control_message.hpp"
#include "report/event.hpp"

namespace autolaunch::launcher {

/// Evidence as the message carries it, cut to control::kEvidenceLimit; and back. Pure.
void put_evidence(const FailureEvidence& evidence, control::RankFailed& failed);
FailureEvidence evidence_of(const control::RankFailed& failed);

}  // namespace autolaunch::launcher
