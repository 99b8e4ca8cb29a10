#pragma once
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What makes one environment of another.
struct EnvironmentChange {
    std::map<std::string, std::string> set;
    std::vector<std::string> unset;
};

/// Both are "NAME=value"; of a name that is there twice the last counts. Pure.
EnvironmentChange change_between(const std::vector<std::string>& from,
                                 const std::vector<std::string>& to);

/// A rank's environment without what it reaches the job by: store, agent and error file. Code that
/// runs before the Session is asked for must not be taken for the rank. Pure.
std::vector<std::string> environment_of_spare(std::vector<std::string> rank);

}  // namespace autolaunch::launcher
