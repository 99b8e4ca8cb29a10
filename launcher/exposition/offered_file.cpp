#include "exposition/offered_file.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/network_file_system.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "autolaunch_", kMark = "# written by process ";

/// When a process was started, in ticks since the node was; empty: there is none.
std::string start_of(const std::string& pid) {
    try {
        const std::string stat = read_file("/proc/" + pid + "/stat");
        const auto words = split(stat.substr(stat.rfind(')') + 1), ' ');
        constexpr std::size_t kStart = 20;  // the 22nd of stat's columns
        return words.size() > kStart ? words[kStart] : "";
    } catch (const Error&) {
        return {};
    }
}

std::string link_text(const char* path) {
    std::error_code error;
    return fs::read_symlink(path, error).string();
}

std::string boot_id() {
    try {
        return std::string(trim(read_file("/proc/sys/kernel/random/boot_id")));
    } catch (const Error&) {
        return {};
    }
}

/// Whether who wrote it is gone for sure, is there for sure, or cannot be told.
enum class Writer { gone, there, unknown };

Writer writer_of(int file) {
    std::array<char, 256> begin;
    const ssize_t got = ::pread(file, begin.data(), begin.size(), 0);
    std::string_view line(begin.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    line = line.substr(0, line.find('\n'));
    if (!line.starts_with(kMark))
        return Writer::unknown;
    const auto words = split(line.substr(kMark.size()), ' ');
    constexpr std::size_t kWords = 4;
    if (words.size() != kWords)
        return Writer::unknown;
    if (words[2] != boot_id())
        return Writer::gone;
    if (words[3] != link_text("/proc/self/ns/pid"))
        return Writer::unknown;
    return start_of(words[0]) == words[1] ? Writer::there : Writer::gone;
}

}  // namespace

std::string shared_file_name(std::string_view job, std::string_view more, std::string_view ending) {
    std::string name(kPrefix);
    const auto add = [&](std::string_view text) {
        for (const char c : text) {
            const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                                  (c >= 'A' && c <= 'Z') || c == '-' || c == '.';
            name += is_plain ? c : '_';
        }
    };
    add(job);
    name += '_';
    add(more);
    constexpr std::size_t kLongest = 200;
    return name.substr(0, kLongest).append(ending);
}

std::string writer_mark() {
    const std::string pid = std::to_string(::getpid());
    return fmt::format("{}{} {} {} {}\n", kMark, pid, start_of(pid), boot_id(),
                       link_text("/proc/self/ns/pid"));
}

OfferedFile::OfferedFile(const fs::path& folder, std::string name, bool may_be_shared)
    : folder_(folder), name_(std::move(name)) {
    const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0)
        throw SystemError(errno, "open the folder " + folder.string());
    fd_.reset(opened);
    if (!may_be_shared && is_network_file_system(folder))
        throw Error(ErrorCode::invalid_argument,
                    folder.string() +
                        " is on a network file system: the nodes that share it would "
                        "overwrite one another's file",
                    "name a folder of the node's own disk, the one that node_exporter there has as "
                    "--collector.textfile.directory");
    if (::faccessat(fd_.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
        throw Error(
            ErrorCode::system,
            folder.string() + " may not be written to by " + fmt::format("user {}", ::geteuid()),
            "let the administrator give it to a group of yours with mode 2775, or leave "
            "the key out");
}

OfferedFile::~OfferedFile() {
    if (fd_)
        ::unlinkat(fd_.get(), name_.c_str(), 0);
}

void OfferedFile::replace(std::string_view text) {
    // A name that neither node_exporter nor Prometheus reads.
    const std::string temporary = "." + name_ + "." + random_hex(8);
    const int made = ::openat(fd_.get(), temporary.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (made < 0)
        throw SystemError(errno, "make a file in " + folder_.string());
    const UniqueFd file(made);
    try {
        write_all(file.get(), text, path().string());
        ::fchmod(file.get(), 0644);  // whatever the umask is: its reader is another user
        if (::renameat(fd_.get(), temporary.c_str(), fd_.get(), name_.c_str()) != 0)
            throw SystemError(errno, "put " + path().string() + " in its place");
    } catch (...) {
        ::unlinkat(fd_.get(), temporary.c_str(), 0);
        throw;
    }
}

int sweep_leftovers(const fs::path& folder, std::string_view ending, std::chrono::seconds silence) {
    const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(folder.c_str()), ::closedir);
    if (!opened)
        return 0;
    int swept = 0;
    const int at = ::dirfd(opened.get());
    while (const dirent* entry = ::readdir(opened.get())) {
        const std::string_view name = entry->d_name;
        // Also one that was never put in its place.
        const bool is_file = name.starts_with(kPrefix) && name.ends_with(ending);
        const bool is_part = name.starts_with('.') && name.substr(1).starts_with(kPrefix) &&
                             name.find(ending) != name.npos;
        if (!is_file && !is_part)
            continue;
        const UniqueFd file(
            ::openat(at, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        struct stat facts {};
        if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
            facts.st_uid != ::geteuid())
            continue;
        const Writer writer = writer_of(file.get());
        const bool is_silent = std::time(nullptr) - facts.st_mtime > silence.count();
        if (writer == Writer::there || (writer == Writer::unknown && !is_silent))
            continue;
        swept += ::unlinkat(at, entry->d_name, 0) == 0 ? 1 : 0;
    }
    return swept;
}

}  // namespace autolaunch::launcher
