#pragma once
#include "exit_codes/rank_exited.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What a rank said before it failed.
struct FailureEvidence {
    std::vector<std::string> last_lines;  ///< raw, oldest first
    bool from_stdout = false;             ///< its stderr was empty, these are of its stdout
    std::string error_message;            ///< of its error file; empty: none
    std::vector<std::string> callstack;   ///< of its error file, the end
    bool may_miss_words = false;  ///< where its logs are, no room was kept for what it said last
};

/// What torch.distributed.elastic's @record writes to TORCHELASTIC_ERROR_FILE.
struct ErrorFile {
    std::string message;
    std::vector<std::string> callstack;
};

/// {"message": {"message": "…", "extraInfo": {"py_callstack": "…", …}}} or {"message": "…"};
/// nothing when it is neither.
std::optional<ErrorFile> parse_error_file(std::string_view json);

/// Reads what a rank said from its files, on the node where it ran; what cannot be read is left
/// out. Reads at most a bounded part from the end of each.
FailureEvidence collect_evidence(const std::string& stderr_path, const std::string& stdout_path,
                                 const std::string& error_file_path);

/// Whether a full disk fits what it said and how it ended: its own words, a signal that such a disk
/// sends, or nothing at all where its log had no room; nor do words prove anything where the last
/// ones found none. `no_room` is RankEnd's. Pure.
bool blames_full_disk(const FailureEvidence& evidence, const RankExited& end,
                      const std::string& no_room);

}  // namespace autolaunch::launcher
