#pragma once
#include "base/unique_fd.hpp"
#include "logs/rank_files.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Keeps room on the disk for what ranks print next, so that a disk that fills up takes neither
/// their `print` nor them. A rank writes its log itself, and a full disk would give it ENOSPC.
///
/// Ahead of each log's end some blocks are reserved (fallocate(2)), and more as it grows. When the
/// disk has no more, the log's own middle is given up for it: its blocks become the next reserve.
/// The beginning of the log and its end stay; the file says where something is missing, and
/// given_up() how much. A rank that prints faster than that still meets ENOSPC, and so does one on
/// a file system that cannot reserve (most network ones).
///
/// Owner: Generation. Threads: the agent's one. Blocks: on the file system.
class LogRoom {
public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::int64_t kMostReserved = 1024 * 1024;  ///< of a file, ahead of its end
    static constexpr std::int64_t kHead = 16 * 1024, kTail = 32 * 1024;  ///< of a log, that stay
    static constexpr std::chrono::seconds kRetry{1};  ///< after the disk was full

    LogRoom() = default;
    LogRoom(const LogRoom&) = delete;
    LogRoom& operator=(const LogRoom&) = delete;
    /// What was reserved and not used is the disk's again. No rank may write any more.
    ~LogRoom();

    /// Keeps descriptors of its own.
    void add_rank(const RankFiles& files);
    /// Call it every 20 ms or so. Once, when it finds the disk full: a sentence that says so.
    std::string keep(Clock::time_point now = Clock::now());
    /// At the end: how much of the logs was given up, as a sentence; empty: nothing.
    std::string given_up() const;

private:
    struct File {
        UniqueFd fd;  // not O_APPEND: it writes the mark where something is missing
        std::filesystem::path path;
        std::int64_t reserved_to = 0;
        std::int64_t seen = 0;         // its size
        std::int64_t gone_to = kHead;  // what is between the head and here was given up
        std::int64_t given_up = 0;
        bool can_reserve = true;
    };

    void add_file(const UniqueFd& written, const std::filesystem::path& path);
    void keep(File& file, Clock::time_point now);
    int reserve(File& file, std::int64_t bytes) const;
    std::int64_t share(const File& file) const;
    void give_up_middle(File& file);
    void mark(const File& file) const;

    std::vector<File> files_;
    int full_ = 0;  // errno of the last reserve that failed; 0: there is room
    Clock::time_point full_since_{};
    bool told_ = false;
    std::filesystem::path full_path_;
};

}  // namespace autolaunch::launcher
