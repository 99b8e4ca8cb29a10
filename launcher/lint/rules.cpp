#include "lint/rule.hpp"

namespace autolaunch::launcher {

std::vector<Rule> all_rules() {
    std::vector<Rule> rules;
    for (const auto part :
         {launch_rules(), habit_rules(), elastic_rules(), address_rules(), slurm_rules(),
          checkpoint_rules(), shell_rules(), array_rules(), nccl_rules(), gpu_rules(), spec_rules(),
          conf_rules(), admin_rules(), metric_rules(), file_rules()})
        rules.insert(rules.end(), part.begin(), part.end());
    return rules;
}

}  // namespace autolaunch::launcher
