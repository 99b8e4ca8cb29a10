#include "readings/file_system_reader.hpp"

#include "base/ask_in_time.hpp"

#include <sys/statfs.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace autolaunch::launcher {

using Clock = std::chrono::steady_clock;

struct FileSystemReader::Asked {
    std::mutex mutex;
    std::condition_variable wanted;
    bool owes = false;
    Clock::time_point since;
    FileSystemSample newest;
    bool known = false;
    std::function<void()> on_answer;
};

namespace {

const char* name_of_type(long type) {
    switch (type) {
        case 0x6969:
            return "nfs";
        case 0x0BD00BD0:
            return "lustre";
        case 0x47504653:
            return "gpfs";
        case 0x19830326:
            return "beegfs";
        case 0x00C36400:
            return "ceph";
        case 0x65735546:
            return "fuse";
        case 0xEF53:
            return "ext4";
        case 0x58465342:
            return "xfs";
        case 0x01021994:
            return "tmpfs";
        case 0x794C7630:
            return "overlay";
        case 0x9123683E:
            return "btrfs";
        case 0x2FC12FC1:
            return "zfs";
        default:
            return nullptr;
    }
}

}  // namespace

bool read_file_system(const std::string& path, FileSystemSample& into) {
    struct statfs facts {};
    if (::statfs(path.c_str(), &facts) != 0)
        return false;
    const auto block =
        static_cast<std::uint64_t>(facts.f_frsize > 0 ? facts.f_frsize : facts.f_bsize);
    into.total_bytes = facts.f_blocks * block;
    into.available_bytes = facts.f_bavail * block;
    if (facts.f_files > 0) {
        into.total_files = facts.f_files;
        into.free_files = facts.f_ffree;
    }
    if (const char* type = name_of_type(static_cast<long>(facts.f_type)))
        into.type = type;
    return true;
}

FileSystemReader::FileSystemReader(const std::vector<std::string>& paths,
                                   std::chrono::milliseconds patience, Statfs statfs)
    : patience_(patience) {
    if (!statfs)
        statfs = read_file_system;
    for (const std::string& path : paths) {
        auto asked = std::make_shared<Asked>();
        asked->newest.path = path;
        asked_.push_back(asked);
        start_detached([asked, path, statfs] {
            for (std::unique_lock lock(asked->mutex);;) {
                asked->wanted.wait(lock, [&] { return asked->owes; });
                lock.unlock();
                FileSystemSample told{.path = path};
                const bool known = statfs(path, told);
                lock.lock();
                asked->newest = std::move(told);
                asked->known = known;
                asked->owes = false;
                const auto on_answer = std::exchange(asked->on_answer, nullptr);
                lock.unlock();
                if (on_answer)
                    on_answer();
                lock.lock();
            }
        });
    }
}

void FileSystemReader::ask(std::function<void()> on_answer) {
    for (const auto& asked : asked_) {
        const std::lock_guard lock(asked->mutex);
        asked->on_answer = on_answer;
        if (std::exchange(asked->owes, true))
            continue;
        asked->since = Clock::now();
        asked->wanted.notify_one();
    }
}

bool FileSystemReader::waits() const {
    for (const auto& asked : asked_) {
        const std::lock_guard lock(asked->mutex);
        if (asked->owes)
            return true;
    }
    return false;
}

std::vector<FileSystemSample> FileSystemReader::answers() const {
    std::vector<FileSystemSample> all;
    for (const auto& asked : asked_) {
        const std::lock_guard lock(asked->mutex);
        if (asked->owes)
            all.push_back({.path = asked->newest.path,
                           .silent_seconds =
                               std::chrono::duration<double>(Clock::now() - asked->since).count()});
        else if (asked->known)
            all.push_back(asked->newest);
    }
    return all;
}

}  // namespace autolaunch::launcher
