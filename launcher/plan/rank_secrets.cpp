#include "plan/rank_secrets.hpp"

#include "base/text.hpp"
#include "plan/rank_environment.hpp"
#include "spec/rank_words.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

[[noreturn]] void refuse_secret_of(const SecretSpec& secret, const std::string& why,
                                   std::string hint) {
    throw Error(ErrorCode::invalid_argument, "secrets." + secret.name + ": " + why,
                std::move(hint));
}

bool has_role(const JobSpec& spec, const std::string& role) {
    return spec.programs.empty()
               ? spec.role == role
               : std::any_of(spec.programs.begin(), spec.programs.end(),
                             [&role](const ProgramSpec& program) { return program.role == role; });
}

}  // namespace

std::vector<std::string> secrets_of_rank(const JobSpec& spec, int rank, const std::string& role) {
    std::vector<std::string> names;
    for (const SecretSpec& secret : spec.given_secrets) {
        const auto& roles = secret.programs;
        const auto ranks = rank_set_from(secret.ranks);
        const bool in_program =
            roles.empty() || std::find(roles.begin(), roles.end(), role) != roles.end();
        if (in_program && ranks && ranks->contains(rank))
            names.push_back(secret.name);
    }
    return names;
}

void check_secrets(const JobSpec& spec, int world_size) {
    for (const SecretSpec& secret : spec.given_secrets) {
        const auto ranks = rank_set_from(secret.ranks);
        if (!ranks || ranks->highest() >= world_size)
            refuse_secret_of(secret,
                             "it is for ranks " + secret.ranks + ", but there are ranks 0 to " +
                                 std::to_string(world_size - 1),
                             "secrets." + secret.name + ".ranks names ranks of the job, or all");
        for (const std::string& role : secret.programs)
            if (!has_role(spec, role))
                refuse_secret_of(secret, "no program of this job has the role " + role,
                                 "--role gives a program its role");
        if (is_of_the_contract(secret.name))
            refuse_secret_of(secret, "autolaunch sets this variable for every rank",
                             "call the secret otherwise");
    }
}

bool is_given_as_secret(const JobSpec& spec, std::string_view variable) {
    return std::any_of(
        spec.given_secrets.begin(), spec.given_secrets.end(), [&](const SecretSpec& secret) {
            return variable == secret.name ||
                   (secret.as == SecretSpec::As::file && variable == secret.name + "_FILE");
        });
}

std::vector<std::string> exposed_arguments(const LaunchPlan& plan) {
    const std::vector<std::string>& known = plan.spec.secrets;
    const bool exposed =
        std::any_of(plan.ranks.begin(), plan.ranks.end(), [&known](const RankPlan& rank) {
            return mask_arguments(rank.argv, known) != rank.argv ||
                   mask_secrets(rank.wrap, known) != rank.wrap;
        });
    if (!exposed)
        return {};
    return {
        "an argument of the program looks like a secret, and every user of the node can read "
        "arguments (ps, /proc/PID/cmdline): give it by a variable or a file (docs/secrets.md)"};
}

std::string describe_source(const SecretSpec& secret) {
    switch (secret.source) {
        case SecretSpec::Source::file:
            return "file " + secret.file;
        case SecretSpec::Source::command:
            return "command " + join(mask_arguments(secret.command), " ");
        case SecretSpec::Source::vault_transit:
            return "vault_transit " + secret.file;
        case SecretSpec::Source::vault:
            break;
    }
    return "vault " + secret.vault_path + '#' + secret.vault_key;
}

std::string describe_way(const SecretSpec& secret) {
    return secret.as == SecretSpec::As::file ? "a file that " + secret.name + "_FILE names"
                                             : "a variable";
}

std::string describe_receivers(const SecretSpec& secret) {
    if (!secret.programs.empty())
        return "programs " + join(secret.programs, ", ");
    return secret.ranks == "all" ? "all ranks" : "ranks " + secret.ranks;
}

}  // namespace autolaunch::launcher
