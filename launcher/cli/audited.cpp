#include "cli/audited.hpp"

#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "secrets/secrets.hpp"
#include "site/audit_kinds.hpp"

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostLines = 200;  // of what prune says

// A bucket's address is none of this machine's.
std::string whole_path(const std::string& path) {
    return path.find("://") != path.npos ? path : absolute_path(path).string();
}

std::string source_of_key(const std::string& file) {
    return file.empty() ? "a command" : whole_path(file);
}

void audit_keys(AuditTrail& trail, const CheckpointKeys& keys) {
    if (!keys.identity_file.empty() || !keys.identity_command.empty())
        trail.require(audit_kind::kKeyUse,
                      {{"key", "age identity"}, {"source", source_of_key(keys.identity_file)}});
    if (!keys.authentication_key_file.empty() || !keys.authentication_key_command.empty())
        trail.require(audit_kind::kKeyUse,
                      {{"key", "authentication key"},
                       {"source", source_of_key(keys.authentication_key_file)}});
}

const char* word_of(CheckpointAction action) {
    switch (action) {
        case CheckpointAction::verify:
            return "verify";
        case CheckpointAction::diff:
            return "diff";
        case CheckpointAction::export_tensors:
            return "export";
        case CheckpointAction::reshard:
            return "reshard";
        case CheckpointAction::convert:
            return "convert";
        default:
            return nullptr;  // of no tensors
    }
}

}  // namespace

void audit_submission(AuditTrail& trail, const JobSpec& spec, const std::string& version,
                      const std::string& to) {
    if (!trail.enabled())
        return;
    trail.set_secrets(spec.secrets);
    Json json = {{"version", version},
                 {"workdir", current_folder().string()},
                 {"spec", spec.spec_file},
                 {"spec_digest", hex64(spec.source_digest)},
                 {"command", mask_arguments(spec.trainer.command, spec.secrets)}};
    if (!to.empty())
        json["to"] = to;
    trail.require(audit_kind::kSubmit, std::move(json));
}

void audit_decision(AuditTrail& trail, const PolicyVerdict& verdict) {
    trail.require(audit_kind::kPolicy,
                  {{"allowed", verdict.allowed}, {"decision", verdict.decision}}, !verdict.allowed);
}

void audit_before(AuditTrail& trail, const CheckpointRequest& request) {
    if (!trail.enabled())
        return;
    audit_keys(trail, request.keys);
    const char* word = word_of(request.action);
    if (word == nullptr)
        return;
    const std::size_t sources =
        request.action == CheckpointAction::diff || request.action == CheckpointAction::verify
            ? request.paths.size()
            : 1;
    Json paths = Json::array();
    for (std::size_t i = 0; i < sources && i < request.paths.size(); ++i)
        paths.push_back(whole_path(request.paths[i]));
    trail.require(audit_kind::kRead, {{"paths", paths}, {"for", word}});
}

void audit_after(AuditTrail& trail, const CheckpointRequest& request,
                 const CheckpointOutcome& outcome) {
    if (!trail.enabled())
        return;
    const auto from_to = [&request] {
        return Json{{"from", whole_path(request.paths.at(0))},
                    {"to", whole_path(request.paths.at(1))}};
    };
    switch (request.action) {
        case CheckpointAction::export_tensors:
            trail.record(audit_kind::kExported, from_to(), true);
            return;
        case CheckpointAction::reshard:
        case CheckpointAction::convert:
            trail.record(audit_kind::kWritten, from_to(), true);
            return;
        case CheckpointAction::new_key:
            trail.record(audit_kind::kKeyUse,
                         {{"key", "a new key"}, {"file", whole_path(request.paths.at(0))}});
            return;
        case CheckpointAction::prune: {
            if (request.dry_run)
                return;
            auto lines = split(std::string(trim(outcome.text)), '\n');
            if (lines.size() > kMostLines)
                lines.resize(kMostLines);
            trail.record(audit_kind::kDeleted,
                         {{"directory", whole_path(request.paths.at(0))}, {"said", lines}}, true);
            return;
        }
        default:
            return;
    }
}

}  // namespace autolaunch::launcher
