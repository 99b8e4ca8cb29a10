#include "topology/machine_identity.hpp"

#include "topology/system_files.hpp"

namespace autolaunch::launcher {

std::map<std::string, std::string> read_machine_identity(const std::string& sysfs_root) {
    std::map<std::string, std::string> identity;
    for (const char* name : {"sys_vendor", "product_name", "chassis_asset_tag"})
        if (auto text = read_small(sysfs_root + "/class/dmi/id/" + name); text && !text->empty())
            identity.emplace(name, std::move(*text));
    return identity;
}

}  // namespace autolaunch::launcher
