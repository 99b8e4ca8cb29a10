#pragma once
#include "cli/argument_splitter.hpp"
#include "spec/job_spec.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// mpirun's and srun's ways to say things, where people have them in their fingers.

/// Options that mean nothing here, or two things, and what to write instead.
const ForeignOptions& foreign_options();

/// mpirun's and srun's words that are one of ours: "-np" is "--ntasks". Added to `shapes`.
void add_foreign_names(OptionShapes& shapes);

/// --bind-to core, socket, …: as --numa-binding says it. Throws UsageError.
std::string binding_from_bind_to(const std::string& text);

/// --map-by: "ppr:2:node" is 2; 0 where it says what autolaunch does anyway. Throws UsageError.
int ranks_per_node_from_map_by(const std::string& text);

/// -H, --host: throws UsageError unless all of it is this machine. How many slots they are, 0 where
/// that is not said.
int slots_of_this_machine(const std::string& hosts, const std::string& hostname);

/// -x NAME=VALUE, or -x NAME, whose value here is for the ranks of all nodes. Notes what is not
/// set.
void export_variables(const std::vector<std::string>& names,
                      const std::map<std::string, std::string>& environment,
                      std::map<std::string, std::string>& trainer_env,
                      std::vector<std::string>& notes);

}  // namespace autolaunch::launcher
