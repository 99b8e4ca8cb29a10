#pragma once
#include "spec/secret_spec.hpp"
#include "spec/value.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Whether it can be the name of a secret's variable; else why not. Pure.
std::string why_no_secret_name(const std::string& name);

/// "kv/team/hub#token" into its path and its key; false for other text. Pure.
bool split_vault_address(const std::string& text, std::string& path, std::string& key);

/// The section `secrets`: names, each with one source. What is wrong goes to `errors`. Pure.
void read_secrets(const Value& section, std::vector<SecretSpec>& secrets,
                  std::vector<SpecError>& errors);

/// One variable has one meaning: what `secrets` has must not stand in trainer.env or nccl.env too.
/// Pure.
void check_secret_names(const Value& root, const std::vector<SecretSpec>& secrets,
                        std::vector<SpecError>& errors);

/// checkpoint.identity_secret must name one of them that is given as a file, and be the only
/// identity. Pure.
void check_identity_secret(const Value& root, const std::vector<SecretSpec>& secrets,
                           std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
