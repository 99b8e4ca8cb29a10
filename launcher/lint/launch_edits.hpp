#pragma once
#include "lint/subject.hpp"

#include <string>

namespace autolaunch::launcher {

// Changes of a command that starts training. Each is empty where the text does not allow it.

/// `option` behind srun.
Edits add_srun_option(const Subject& subject, const Launch& launch, const std::string& option);
/// `text` and a blank in front of the tool.
Edits put_before_tool(const Subject& subject, const Launch& launch, const std::string& text);
/// The tool's `name` (with dashes) with that value; added where it is not given.
Edits set_tool_option(const Subject& subject, const Launch& launch, const std::string& name,
                      const std::string& value);
Edits remove_tool_flag(const Subject& subject, const Launch& launch, const std::string& name);
/// --ntasks-per-node or --ntasks of srun or of the directives, whichever the launch goes by.
Edits set_tasks_per_node(const Subject& subject, const Launch& launch, long long tasks);

/// `NAME` of a Slurm option with another value, in the form in which it stands there.
Edits set_option_value(const SourceLines& source, const SlurmOption& option,
                       const std::string& value);
/// A directive behind that of `option`.
Edits add_directive(const Subject& subject, const SlurmOption& option, const std::string& text);

/// The first node's name, as a shell finds it.
inline constexpr const char* kFirstNode =
    R"($(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1))";

}  // namespace autolaunch::launcher
