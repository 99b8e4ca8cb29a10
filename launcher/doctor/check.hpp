#pragma once
#include "doctor/finding.hpp"
#include "doctor/node_sources.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

class Examination;
class ExaminedNode;

/// Where a check may get stuck. Checks of one place run one after the other in one process, places
/// side by side.
enum class Place {
    files,     ///< sysfs, procfs, limits: answers at once
    counters,  ///< the same, read twice with a pause between
    driver,    ///< NVIDIA's driver
    verbs,     ///< HCAs' drivers, through libibverbs
    nccl,      ///< a library that is loaded
    folders,   ///< file systems; a process for each folder
    names,     ///< the resolver
    nodes,     ///< only several nodes together can tell: comparison.hpp, no function
};

struct Check {
    std::string_view name;      ///< for --only and --skip, and on the screen
    std::string_view looks_at;  ///< for docs/doctor.md
    Severity severity;          ///< of its gravest finding
    std::string_view fix;       ///< of findings that bring none of their own
    Place place;
    std::chrono::milliseconds time_limit;
    void (*look)(Examination&);  ///< null: of several nodes together
    /// Of a check that does not answer in time: a file system that hangs is a failure, other
    /// silence is none.
    std::optional<Severity> no_answer = std::nullopt;
};

/// All of them, in the order of docs/doctor.md.
std::span<const Check> checks();
const Check* find_check(std::string_view name);

/// Which checks to run.
struct CheckChoice {
    std::vector<std::string> only;  ///< empty: all
    std::vector<std::string> skip;
    bool has(std::string_view check) const;
};
/// "a,b" as it was typed. Throws Error{invalid_argument} that names the nearest for a check that
/// does not exist.
std::vector<std::string> check_names_from(const std::string& list);

/// Runs one check here and now, in this process and on this thread. Whatever it throws is said as
/// "not checked".
NodeReport run_check(const Check& check, ExaminedNode& state, std::size_t part = 0);
/// How often it runs: once, or once a folder.
std::size_t parts_of(const Check& check, const NodeSources& sources);

}  // namespace autolaunch::launcher
