#include "plan/hidden_values.hpp"

namespace autolaunch::launcher {

namespace {

void hide(std::vector<VariableChoice>& variables, const std::vector<std::string>& known) {
    for (VariableChoice& variable : variables)
        variable.value = mask_value(variable.name, variable.value, known);
}

}  // namespace

LaunchPlan without_secrets(LaunchPlan plan) {
    const std::vector<std::string>& known = plan.spec.secrets;
    for (RankPlan& rank : plan.ranks) {
        rank.argv = mask_arguments(rank.argv, known);
        hide(rank.environment, known);
    }
    hide(plan.nccl.set, known);
    hide(plan.nccl.kept, known);
    return plan;
}

}  // namespace autolaunch::launcher
