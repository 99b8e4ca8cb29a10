#include "causes/failure_evidence.hpp"

#include "base/file_io.hpp"
#include "base/json_nesting.hpp"
#include "base/read_at_most.hpp"
#include "base/room_on_disk.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kTailLines = 64;
constexpr std::size_t kCallstackLines = 12;
constexpr int kDeepestError = 64;  // torchelastic's are three deep, and extraInfo may hold anything
constexpr std::size_t kGapBytes = 512;  // a rank hardly prints as many zeros
constexpr std::uintmax_t kMaxErrorFileBytes = 1024 * 1024;

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    while (!lines.empty() && trim(lines.back()).empty())
        lines.pop_back();
    return lines;
}

// A carriage return that a message quotes, of an option, file or number of a script with DOS line
// ends, as "set: -\r: invalid option" and "Illegal option -\r". A progress bar's goes before other
// characters.
bool is_quoted(std::string_view line, std::size_t at) {
    const std::string_view before = line.substr(0, at), after = line.substr(at + 1);
    return after.starts_with(": ") || after.starts_with('\'') ||
           (after.empty() && (before.ends_with("option -") || before.ends_with("option: -")));
}

// What a terminal would show of it in the end; carriage returns that are quoted as \r.
std::string last_state(std::string_view line) {
    const std::size_t last = line.find_last_not_of('\r');
    if (last == std::string_view::npos)
        return {};
    std::string shown;
    for (std::size_t at = 0; at < line.size(); ++at) {
        if (line[at] != '\r')
            shown += line[at];
        else if (is_quoted(line, at))
            shown += "\\r";
        else if (at < last)
            shown.clear();
    }
    return shown;
}

std::string read_end(int fd, off_t size, std::size_t bytes) {
    std::string content(std::min<std::size_t>(bytes, static_cast<std::size_t>(size)), '\0');
    const off_t begin = size - static_cast<off_t>(content.size());
    std::size_t filled = 0;
    while (filled < content.size()) {
        const ssize_t got = ::pread(fd, content.data() + filled, content.size() - filled,
                                    begin + static_cast<off_t>(filled));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        filled += static_cast<std::size_t>(got);
    }
    content.resize(filled);
    // What was given up of a log on a full disk reads as zeros; what counts is behind it.
    if (const auto gap = content.rfind(std::string(kGapBytes, '\0')); gap != std::string::npos)
        content.erase(0, gap + kGapBytes);
    return content;
}

// The last `lines` lines of a file, oldest first, reading no more than its last `bytes` bytes (a
// first line that this cuts is left out when there is another). Of a line with carriage returns,
// what stood last. Empty lines at the end are left out. Empty when the file cannot be read.
std::vector<std::string> file_tail(const std::filesystem::path& path, std::size_t lines,
                                   std::size_t bytes = 64 * 1024) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
        return {};
    std::vector<std::string> tail = split(read_end(fd.get(), status.st_size, bytes), '\n');
    for (auto& line : tail)
        line = last_state(line);
    while (!tail.empty() && trim(tail.back()).empty())
        tail.pop_back();
    const bool first_is_cut = static_cast<std::size_t>(status.st_size) > bytes;
    if (first_is_cut && tail.size() > 1)
        tail.erase(tail.begin());
    if (tail.size() > lines)
        tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(lines));
    return tail;
}

// Nothing when it is not there or not readable.
std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
    std::error_code failed;
    if (path.empty() || !std::filesystem::is_regular_file(path, failed))
        return std::nullopt;
    const std::uintmax_t bytes = std::filesystem::file_size(path, failed);
    if (failed || bytes > kMaxErrorFileBytes)
        return std::nullopt;
    try {
        return parse_error_file(read_at_most(path, kMaxErrorFileBytes));
    } catch (const SystemError&) {  // the screen goes without it
        return std::nullopt;
    }
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view text) {
    if (!nests_at_most(text, kDeepestError))
        return std::nullopt;
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

FailureEvidence collect_evidence(const std::string& stderr_path, const std::string& stdout_path,
                                 const std::string& error_file_path) {
    FailureEvidence evidence;
    evidence.last_lines = file_tail(stderr_path, kTailLines);
    if (evidence.last_lines.empty()) {
        evidence.last_lines = file_tail(stdout_path, kTailLines);
        evidence.from_stdout = !evidence.last_lines.empty();
    }
    if (auto error = read_error_file(error_file_path)) {
        evidence.error_message = std::move(error->message);
        const auto count =
            static_cast<std::ptrdiff_t>(std::min(kCallstackLines, error->callstack.size()));
        evidence.callstack.assign(error->callstack.end() - count, error->callstack.end());
    }
    return evidence;
}

bool blames_full_disk(const FailureEvidence& evidence, const RankExited& end,
                      const std::string& no_room) {
    const auto tells = [](const std::vector<std::string>& lines) {
        return std::any_of(lines.begin(), lines.end(),
                           [](const std::string& line) { return tells_want_of_room(line); });
    };
    if (tells(evidence.last_lines) || tells(evidence.callstack) ||
        tells_want_of_room(evidence.error_message) || end.signal == SIGXFSZ)
        return true;
    if (no_room.empty())
        return false;
    const bool ended_itself = !end.signal || end.signal == SIGABRT;
    return evidence.last_lines.empty() || end.signal == SIGBUS ||
           (evidence.may_miss_words && ended_itself);
}

}  // namespace autolaunch::launcher
