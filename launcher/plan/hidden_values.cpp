#include "plan/hidden_values.hpp"

#include "secrets/secrets.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

/// Ranks have the same variables: each name is judged once.
class Hiding {
public:
    explicit Hiding(const std::vector<std::string>& known) : known_(known) {}
    void hide(std::vector<VariableChoice>& variables) {
        for (VariableChoice& variable : variables) {
            const auto [judged, is_new] = secret_.try_emplace(variable.name);
            if (is_new)
                judged->second = names_secret(variable.name);
            if (judged->second && !variable.value.empty())
                variable.value = kMasked;
            else
                mask_text(variable.value, known_);
        }
    }

private:
    const std::vector<std::string>& known_;
    std::map<std::string, bool> secret_;
};

}  // namespace

LaunchPlan without_secrets(LaunchPlan plan) {
    const std::vector<std::string>& known = plan.spec.secrets;
    Hiding hiding(known);
    for (RankPlan& rank : plan.ranks) {
        rank.argv = mask_arguments(rank.argv, known);
        rank.wrap = mask_secrets(rank.wrap, known);
        hiding.hide(rank.environment);
    }
    for (auto& [ranks, command] : plan.spec.trainer.wrap)
        command = mask_secrets(command, known);
    for (ProgramSpec& program : plan.spec.programs)
        program.command = mask_arguments(program.command, known);
    hiding.hide(plan.nccl.set);
    hiding.hide(plan.nccl.kept);
    return plan;
}

}  // namespace autolaunch::launcher
