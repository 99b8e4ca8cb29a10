#include "lint/subject.hpp"

#include <algorithm>

namespace autolaunch::launcher {

long long Subject::nodes() const {
    if (kind == FileKind::script)
        return script.nodes().value_or(1);
    if (!spec.readable())
        return 1;
    const auto& job = spec.result.spec;
    return std::max(job.resources.nodes, job.slurm.nodes.value_or(1));
}

bool Subject::many_nodes() const { return nodes() > 1; }

bool Subject::exclusive() const {
    if (kind == FileKind::spec)
        return spec.readable() && spec.result.spec.slurm.exclusive.value_or(false);
    const SlurmOption* option = script.option("exclusive");
    return option != nullptr &&
           (!option->has_value || option->value.value.empty());  // =user and =mcs still share
}

}  // namespace autolaunch::launcher
