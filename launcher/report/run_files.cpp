#include "report/run_files.hpp"

#include "base/file_system.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 20'000;
constexpr std::size_t kLongestName = 256;
constexpr char kSamples[] = "samples";
constexpr char kEnd[] = "end";
constexpr std::size_t kMostRead = std::size_t{1} << 20;

bool is_number(std::string_view text) {
    return !text.empty() && text.size() <= 9 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// What stands between them; nothing where the text has another form.
std::optional<std::string_view> between(std::string_view text, std::string_view beginning,
                                        std::string_view ending) {
    if (text.size() < beginning.size() + ending.size() || !text.starts_with(beginning) ||
        !text.ends_with(ending))
        return std::nullopt;
    text.remove_prefix(beginning.size());
    text.remove_suffix(ending.size());
    return text;
}

bool is_of_node(std::string_view name, std::string_view kind, std::string_view ending) {
    const auto node = between(name, std::string(kind) + ".node-", ending);
    return name == std::string(kind) + std::string(ending) || (node && is_number(*node));
}

bool is_log(std::string_view name) {
    const auto parts = split(name, '/');
    return parts.size() == 3 && is_number(between(parts[0], "generation-", "").value_or("")) &&
           is_number(between(parts[1], "rank-", "").value_or("")) &&
           (parts[2] == "stdout" || parts[2] == "stderr");
}

bool is_samples(std::string_view name) {
    const auto node = between(name, std::string(kSamples) + "/", ".jsonl");
    return node && !node->empty() && node->find('/') == std::string_view::npos &&
           !node->starts_with('.');
}

/// Each folder of the name by itself, for any of them may be a link.
UniqueFd open_below(int folder, std::string_view name, int flags, int& error) {
    UniqueFd at;
    for (std::size_t slash = 0; (slash = name.find('/')) != name.npos;
         name.remove_prefix(slash + 1)) {
        UniqueFd next(::openat(at ? at.get() : folder, std::string(name.substr(0, slash)).c_str(),
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        error = errno;
        if (!next)
            return {};
        at = std::move(next);
    }
    UniqueFd found(::openat(at ? at.get() : folder, std::string(name).c_str(),
                            flags | O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    error = errno;
    return found;
}

}  // namespace

bool is_run_file(std::string_view name) {
    return name.size() <= kLongestName && name.find('\0') == name.npos &&
           (is_of_node(name, "events", ".jsonl") || is_of_node(name, "plan", ".json") ||
            is_samples(name) || is_log(name));
}

RunFolder::RunFolder(const fs::path& path) : path_(path) {
    folder_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_)
        throw SystemError(errno, "open the run directory " + path.string(),
                          "name the folder that autolaunch printed at the job's start");
}

std::vector<RunFile> RunFolder::list() const {
    std::vector<RunFile> files;
    std::error_code ignored;
    for (const fs::path& folder : {path_, path_ / kSamples})
        for (const fs::path& path : list_folder(folder, ignored)) {
            const std::string name = path.lexically_relative(path_).string();
            struct stat facts {};
            if (files.size() < kMostFiles && is_run_file(name) &&
                ::fstatat(folder_.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(facts.st_mode))
                files.push_back({name, static_cast<std::uint64_t>(facts.st_size)});
        }
    return files;
}

RunFilePart RunFolder::read(const std::string& name, std::uint64_t offset, std::size_t most) const {
    RunFilePart part;
    if (!is_run_file(name)) {
        part.wrong = "is no file of a run that is read";
        return part;
    }
    int error = 0;
    // A FIFO must not hold us.
    const UniqueFd file = open_below(folder_.get(), name, O_NONBLOCK, error);
    struct stat facts {};
    if (!file) {
        part.wrong = error == ELOOP    ? "is a symbolic link, which is not followed"
                     : error == ENOENT ? "is not there"
                                       : std::string("cannot be read: ") + std::strerror(error);
        return part;
    }
    if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
        part.wrong = "is not a regular file";
        return part;
    }
    part.file_bytes = static_cast<std::uint64_t>(facts.st_size);
    if (offset == kFromEnd)
        offset = part.file_bytes - std::min<std::uint64_t>(part.file_bytes, most);
    if (offset >= part.file_bytes)
        return part;
    part.bytes.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(most, part.file_bytes - offset)));
    ssize_t got = 0;
    do {
        got = ::pread(file.get(), part.bytes.data(), part.bytes.size(), static_cast<off_t>(offset));
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        part.wrong = std::string("cannot be read: ") + std::strerror(errno);
    part.bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    part.covered = part.bytes.size();
    return part;
}

std::optional<int> rank_of_step_line(std::string_view line) {
    constexpr std::string_view kStep = R"("event":"step","rank":)";
    constexpr std::size_t kBeginning = 120;
    const std::size_t found = line.substr(0, kBeginning).find(kStep);
    if (found == std::string_view::npos)
        return std::nullopt;
    const std::string_view digits = line.substr(found + kStep.size(), 10);
    long long rank = 0;
    if (!parse_integer(digits.substr(0, digits.find_first_not_of("0123456789")), rank) ||
        rank > 1'000'000'000)
        return std::nullopt;
    return static_cast<int>(rank);
}

std::string request_for_others(std::string_view name, std::uint64_t offset, std::size_t most) {
    const std::string from = offset == kFromEnd ? kEnd : std::to_string(offset);
    return from + ' ' + std::to_string(most) + ' ' + std::string(name);
}

RunFilePart read_for_others(const RunFolder& folder, std::string_view request, std::size_t most) {
    const auto words = split(request, ' ');
    long long offset = 0, wanted = 0;
    if (words.size() != 3 || !parse_integer(words[1], wanted) || wanted < 0 ||
        (words[0] != kEnd && (!parse_integer(words[0], offset) || offset < 0)))
        return {.wrong = "nobody asks so for a file"};
    const std::string& name = words[2];
    const bool from_end = words[0] == kEnd;
    if (from_end || !name.starts_with("events."))
        return folder.read(name, from_end ? kFromEnd : static_cast<std::uint64_t>(offset),
                           std::min(most, static_cast<std::size_t>(wanted)));
    RunFilePart part;
    for (std::size_t bytes = kMostRead; bytes > most; bytes /= 2) {
        part = folder.read(name, static_cast<std::uint64_t>(offset), bytes);
        part.bytes.resize(part.bytes.rfind('\n') + 1);  // npos + 1 is 0
        part.covered = part.bytes.size();
        part.bytes = without_older_steps(part.bytes);
        if (part.covered > 0 && part.bytes.size() <= most)
            return part;
    }
    return folder.read(name, static_cast<std::uint64_t>(offset), most);
}

std::string without_older_steps(std::string_view lines) {
    std::map<int, std::size_t> newest;  // of each rank, where its line begins
    for (std::size_t at = 0; at < lines.size();) {
        const std::size_t end = std::min(lines.find('\n', at), lines.size() - 1);
        if (const auto rank = rank_of_step_line(lines.substr(at, end - at)))
            newest[*rank] = at;
        at = end + 1;
    }
    std::string kept;
    for (std::size_t at = 0; at < lines.size();) {
        const std::size_t end = std::min(lines.find('\n', at), lines.size() - 1);
        const auto rank = rank_of_step_line(lines.substr(at, end - at));
        if (!rank || newest.at(*rank) == at)
            kept.append(lines.substr(at, end + 1 - at));
        at = end + 1;
    }
    return kept;
}

}  // namespace autolaunch::launcher
