#include "pmi/abandoned_files.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

std::set<std::string> candidates(const fs::path& folder, std::string_view prefix,
                                 std::chrono::system_clock::time_point since) {
    std::set<std::string> found;
    std::error_code ignored;
    for (const fs::path& file : list_folder(folder, ignored)) {
        struct stat status {};
        if (!file.filename().string().starts_with(prefix) || ::lstat(file.c_str(), &status) != 0)
            continue;
        if (S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
            std::chrono::system_clock::from_time_t(status.st_mtim.tv_sec + 1) >= since)
            found.insert(file);
    }
    return found;
}

// A process that made itself unreadable (it has capabilities) shows its user all the same. The
// machine's first one may be so even for root, and is no rank.
bool may_be_a_rank_of_ours(const fs::path& process) {
    if (process.filename() == "1")
        return false;
    try {
        return read_file(process / "status").find("\nUid:\t" + std::to_string(::getuid()) + '\t') !=
               std::string::npos;
    } catch (const Error&) {
        return false;  // it has ended
    }
}

// Another user's process cannot have ours; one of ours that cannot be looked at may have all.
void forget_used_by(const fs::path& process, std::set<std::string>& files) {
    std::error_code unreadable;
    for (const fs::path& fd : list_folder(process / "fd", unreadable)) {
        std::error_code gone;
        files.erase(fs::read_symlink(fd, gone).string());
    }
    try {
        const std::string maps = read_file(process / "maps");
        std::erase_if(
            files, [&](const std::string& file) { return maps.find(file) != std::string::npos; });
    } catch (const SystemError& error) {
        unreadable.assign(error.error_number(), std::generic_category());
    }
    if (unreadable == std::errc::permission_denied && may_be_a_rank_of_ours(process))
        files.clear();
}

}  // namespace

void remove_abandoned_files(const fs::path& folder, std::string_view prefix,
                            std::chrono::system_clock::time_point since) {
    std::set<std::string> files = candidates(folder, prefix, since);
    if (files.empty())
        return;
    std::error_code error;
    for (const fs::path& process : list_folder("/proc", error))
        if (process.filename().string().find_first_not_of("0123456789") == std::string::npos)
            forget_used_by(process, files);
    if (error)
        return;  // of a process that was not looked at, nobody knows what it uses
    for (const auto& file : files)
        ::unlink(file.c_str());
}

bool sees_all_processes() {
    std::error_code unknown;
    return fs::read_symlink("/proc/self/ns/pid", unknown) == "pid:[4026531836]";  // the machine's
}

}  // namespace autolaunch::launcher
