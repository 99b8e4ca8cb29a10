#pragma once
#include "base/deadline.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// Which code does a job run? What git says of the folder where ranks start, and a copy of it.

struct CodeState {
    std::string root;    ///< of the repository; empty: there is none
    std::string commit;  ///< of HEAD; empty: there is none yet
    /// Tracked files that differ from HEAD, and sources that git does not track yet.
    std::vector<std::string> changed;
    std::string digest;  ///< of those files' names and bytes

    bool same_as(const CodeState& other) const {
        return commit == other.commit && digest == other.digest;
    }
};

/// `without`: folders whose files are no code, such as runs. Nothing where git cannot say it: `why`
/// says why, and is empty where there is no repository. Blocks until the deadline, and as the disk.
std::optional<CodeState> read_code_state(const std::filesystem::path& folder,
                                         const std::vector<std::filesystem::path>& without,
                                         const Deadline& deadline, std::string& why);
/// Writes git's diff of all that differs from HEAD, for its owner alone. False: it could not.
bool write_diff(const CodeState& state, const std::filesystem::path& file,
                const Deadline& deadline);

struct CodeCopy {
    std::filesystem::path workdir;  ///< where ranks start in it
    std::uint64_t files = 0, bytes = 0;
};
/// Copies what git tracks or would (`state` is of `folder`), or without a repository all of the
/// folder but hidden files. Throws ExitError for more than 512 MiB or 50,000 files, SystemError.
CodeCopy copy_code(const std::filesystem::path& folder, const std::optional<CodeState>& state,
                   const std::vector<std::filesystem::path>& without,
                   const std::filesystem::path& to, const Deadline& deadline);

nlohmann::ordered_json to_json(const CodeState& state);

/// What a start has to say of a job that was submitted: that its code is not what it was, or that
/// this is not known. Empty: nothing. `spec_file` is the one that the job reads. Blocks 5 s at
/// most.
std::string changed_code(const std::filesystem::path& spec_file);
/// Whether `autolaunch submit` wrote it.
bool was_submitted(const std::filesystem::path& spec_file);

}  // namespace autolaunch::launcher
