#pragma once
#include "spec/spec_error.hpp"
#include "spec/value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// A job that starts later is to find the spec as it was when somebody submitted it: includes
// merged, overrides applied, ${VAR} replaced by what it is there and then. Two kinds of variables
// stay: those that only the job has, and those that hold a secret, which no file of ours may have.

struct StoredSpec {
    Value root;
    std::vector<std::string> of_job;  ///< variables that stayed, for the job knows them alone
    std::vector<std::string> secret;  ///< and those that stayed since they hold a secret
};

/// SLURM_… and what nodes have of their own: TMPDIR, HOSTNAME, CUDA_VISIBLE_DEVICES.
bool is_known_to_job_alone(std::string_view name);
/// `value` is null where it is not set.
bool stays_in_stored_spec(const std::string& name, const std::string* value);

/// Quotes in which a ${VAR} stood for a number or a boolean would make it text.
void unquote_replaced(Value& value);
/// A secret's value that is written in the spec is an error at its place.
void refuse_stored_secrets(const Value& root, std::vector<SpecError>& errors);

/// `section.key` of `root`, set to that text; both are made where they are not there.
void set_in_spec(Value& root, std::string_view section, std::string_view key, std::string text,
                 bool plain = false);
/// `section.key`; null where it is not there.
const Entry* find_in_spec(const Value& root, std::string_view section, std::string_view key);

/// A tree as YAML that reads as the same tree. Pure.
std::string to_yaml(const Value& root);

}  // namespace autolaunch::launcher
