#pragma once
#include "control/control_message.hpp"
#include "report/event.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

// What happened to a rank, between report's form and that of the control protocol. Pure.

control::RankEnd to_control(const RankExited& exited);
RankExited from_control(const control::RankEnd& end);

/// Evidence as the message carries it, cut to control::kEvidenceLimit; and back.
void put_evidence(const FailureEvidence& evidence, control::RankFailed& failed);
FailureEvidence evidence_of(const control::RankFailed& failed);

}  // namespace autolaunch::launcher
