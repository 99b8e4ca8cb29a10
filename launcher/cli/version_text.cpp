#include "cli/version_text.hpp"

#include "cli/build_info.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

namespace autolaunch::launcher {

std::string version_text() {
    return std::string("autolaunch ") + build_info::kVersion + "\ncommit    " +
           build_info::kCommit + "\ncompiler  " + build_info::kCompiler + '\n' +
           build_info::kOptions;
}

std::string version_json() {
    nlohmann::ordered_json options = nlohmann::ordered_json::object();
    std::istringstream lines(build_info::kOptions);
    std::string name, what;
    while (lines >> name && std::getline(lines >> std::ws, what))
        options[name] = what;
    const nlohmann::ordered_json all = {{"format", 1},
                                        {"version", build_info::kVersion},
                                        {"commit", build_info::kCommit},
                                        {"compiler", build_info::kCompiler},
                                        {"options", std::move(options)}};
    return all.dump(2) + '\n';
}

}  // namespace autolaunch::launcher
