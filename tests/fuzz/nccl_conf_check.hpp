#pragma once
#include "nccl_env/nccl_conf.hpp"

#include <cstddef>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A file of NCCL's settings, which its user or an administrator wrote: each name once, nothing
/// longer than NCCL keeps, and every warning names its place. Aborts where that is not so. How many
/// settings there were.
inline std::size_t check_nccl_conf_bytes(std::string_view bytes) {
    constexpr std::size_t kKept = 1023;
    NcclConf conf;
    parse_nccl_conf(bytes, "nccl.conf", conf);
    std::set<std::string> names;
    for (const VariableChoice& setting : conf.settings)
        if (setting.name.empty() || setting.name.size() > kKept || setting.value.size() > kKept ||
            !names.insert(setting.name).second)
            std::abort();
    for (const std::string& warning : conf.warnings)
        if (!warning.starts_with("nccl.conf:"))
            std::abort();
    return conf.settings.size();
}

}  // namespace autolaunch::launcher
