#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What torch.distributed.elastic's @record writes to TORCHELASTIC_ERROR_FILE.
struct ErrorFile {
    std::string message;
    std::vector<std::string> callstack;
};

/// {"message": {"message": "…", "extraInfo": {"py_callstack": "…", …}}} or {"message": "…"};
/// nothing when it is neither.
std::optional<ErrorFile> parse_error_file(std::string_view json);
/// The same from a file of at most 1 MiB; nothing when it is not there or not readable.
std::optional<ErrorFile> read_error_file(const std::filesystem::path& path);

}  // namespace autolaunch::launcher
