#include "pmi/node_facts.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <string_view>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

bool has_fabric(const fs::path& sysfs) {
    for (const char* device_class : {"class/infiniband", "class/cxi"}) {
        std::error_code missing;
        if (!list_folder(sysfs / device_class, missing).empty())
            return true;
    }
    return false;
}

bool user_names_transport(const std::vector<std::string>& environment) {
    constexpr std::string_view kHome = "HOME=";
    for (const std::string& variable : environment) {
        if (!variable.starts_with(kHome))
            continue;
        try {
            for (const auto& line : split(read_file(fs::path(variable.substr(kHome.size())) /
                                                    ".openmpi/mca-params.conf"),
                                          '\n')) {
                const std::string_view key = trim(std::string_view(line).substr(0, line.find('=')));
                if (key == "pml" || key == "btl" || key == "mtl")
                    return true;
            }
        } catch (const Error&) {  // there is none
        }
    }
    return false;
}

}  // namespace autolaunch::launcher
