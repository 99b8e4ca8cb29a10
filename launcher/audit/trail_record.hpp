#pragma once
#include "audit/audit_chain.hpp"
#include "base/owned_folder.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// RUN_DIR/audit.json, and audit.node-K.json of node K: where a run's lines are. Throws
/// SystemError.
void keep_trail_record(const OwnedFolder& run_dir, int node, const std::filesystem::path& trail,
                       const AuditHead& head, const std::string& job);

/// The trails that the records of a run name; those that cannot be read are left out.
std::vector<std::filesystem::path> trails_of_run(const std::filesystem::path& run_dir);

/// What the records of the other nodes say, for the head's last line: node, chain, seq, sha256.
nlohmann::ordered_json other_heads(const std::filesystem::path& run_dir, int node);

}  // namespace autolaunch::launcher
