#include "report/error_file.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <cstdint>
#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

constexpr std::uintmax_t kMaxBytes = 1024 * 1024;

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    while (!lines.empty() && trim(lines.back()).empty())
        lines.pop_back();
    return lines;
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view text) {
    const nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
    if (!root.is_object() || !root.contains("message"))
        return std::nullopt;
    const nlohmann::json& message = root["message"];
    if (message.is_string())
        return ErrorFile{message.get<std::string>(), {}};
    if (!message.is_object() || !message.contains("message") || !message["message"].is_string())
        return std::nullopt;
    ErrorFile error{message["message"].get<std::string>(), {}};
    const nlohmann::json extra = message.value("extraInfo", nlohmann::json::object());
    if (extra.is_object() && extra.contains("py_callstack") && extra["py_callstack"].is_string())
        error.callstack = lines_of(extra["py_callstack"].get<std::string>());
    return error;
}

std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
    std::error_code failed;
    if (path.empty() || !std::filesystem::is_regular_file(path, failed))
        return std::nullopt;
    const std::uintmax_t bytes = std::filesystem::file_size(path, failed);
    if (failed || bytes > kMaxBytes)
        return std::nullopt;
    try {
        return parse_error_file(read_file(path));
    } catch (const SystemError&) {  // the screen goes without it
        return std::nullopt;
    }
}

}  // namespace autolaunch::launcher
