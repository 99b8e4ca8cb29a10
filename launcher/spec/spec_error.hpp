#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One thing that is wrong with a spec. The spec's reader lists them all; printing is the caller's.
struct SpecError {
    std::string file;  ///< the file, or `override KEY=VALUE` for one of the command line
    int line = 0;      ///< from 1; 0: no position in it
    int column = 0;    ///< from 1, in bytes
    std::string key;   ///< full path of the key, such as restart.max_restarts; may be empty
    std::string message;
    bool unreadable = false;  ///< the file could not be read at all
};

/// `train.yaml:12:5: restart.max_restart: unknown key; …`
std::string to_string(const SpecError& error);

/// `autolaunch validate --json` (docs/json-output.md).
std::string errors_json(const std::string& spec_file, const std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
