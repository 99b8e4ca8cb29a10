#pragma once
#include "sweep/early_stop.hpp"

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What an element writes into the folder that all elements share: "element-7.json".
struct ElementRecord {
    int element = 0;
    std::string run_dir = {},
                array_job = {};  ///< of the newest start; array_job: Slurm's number, or empty
    std::string updated = {};    ///< "2026-01-31T12:00:00Z"
    bool ended = false;
    std::string outcome = {};           ///< of an end: as JobEnded has it
    std::optional<int> exit_code = {};  ///< the same
    std::string stopped_early = {};     ///< why; empty: it was not
    std::optional<std::int64_t> total_steps = {};
    std::string metric = {};
    MetricHistory history = {};
};

std::string element_record_file(int element);
/// Pure.
std::string element_record_text(const ElementRecord& record);
/// Nothing for what is no such record. Pure.
std::optional<ElementRecord> parse_element_record(const std::string& text);

/// Of all elements of a sweep that have begun, by number. `unreadable` gets files that are none.
/// Throws SystemError and Error as OwnedFolder. Blocks as the file system.
std::map<int, ElementRecord> read_element_records(const std::filesystem::path& folder,
                                                  std::vector<std::string>& unreadable);
inline constexpr std::size_t kMostRecordBytes = std::size_t{1} << 20;

}  // namespace autolaunch::launcher
