#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// One line of slurm.conf or gres.conf: KEY=VALUE pairs, continued lines joined, comments gone.
struct ConfLine {
    int line = 0;
    std::vector<std::pair<std::string, std::string>> fields;  ///< names as written
    std::string include;  ///< of an Include line the file, as written; else empty

    /// Names are compared as Slurm does, without regard to case; empty when it is not there.
    std::string value(std::string_view name) const;
    bool has(std::string_view name) const;
};

struct ConfFile {
    std::vector<ConfLine> lines;
    const ConfLine* first_with(std::string_view name) const;
};

/// Any text at all; what is neither KEY=VALUE nor Include is passed over. Linear. Pure.
ConfFile parse_slurm_conf(std::string_view text);
bool equals_ignoring_case(std::string_view a, std::string_view b);

}  // namespace autolaunch::launcher
