#pragma once
#include "stage_out/out_folder.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// Which node of a job has written which names, where those of all go to one folder: lists in the
// job's run directory, RUN_DIR/stage-out/NAME@NODE, a path a line, escaped.

/// Before the first is copied. Where it cannot be written a note says so: then a clash names one
/// node alone.
void claim_names(const OutOrder& order, const std::string& name, const std::vector<OutFile>& files,
                 const std::function<void(const std::string&)>& note);
/// The other nodes that have written that path, sorted; none: nobody is known.
std::vector<std::string> who_claims(const OutOrder& order, const std::string& name,
                                    const std::string& path);

/// The folder of a node with layout: node.
std::string as_node_folder(const std::string& node);

}  // namespace autolaunch::launcher
