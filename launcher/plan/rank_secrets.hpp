#pragma once
#include "plan/launch_plan.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Names of the secrets that a rank of this number and role gets. Pure.
std::vector<std::string> secrets_of_rank(const JobSpec& spec, int rank, const std::string& role);

/// Refuses secrets for ranks and programs that are not there, and such as would take the place of
/// what autolaunch itself tells ranks. Throws Error{invalid_argument}.
void check_secrets(const JobSpec& spec, int world_size);

/// Whether a variable of the inherited environment stays with the agent, since `secrets` says which
/// ranks get it.
bool is_given_as_secret(const JobSpec& spec, std::string_view variable);

/// A warning where arguments of the ranks' programs look like secrets: the kernel shows them to
/// everybody. Pure.
std::vector<std::string> exposed_arguments(const LaunchPlan& plan);

/// "file ~/.hf_token", "command pass show db", "vault kv/team/api#key": without a value. Pure.
std::string describe_source(const SecretSpec& secret);
/// "a variable", "a file that API_KEY_FILE names". Pure.
std::string describe_way(const SecretSpec& secret);
/// "ranks 0,3-5", "programs train", "all ranks". Pure.
std::string describe_receivers(const SecretSpec& secret);

}  // namespace autolaunch::launcher
