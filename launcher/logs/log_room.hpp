#pragma once
#include "base/room_on_disk.hpp"
#include "base/unique_fd.hpp"
#include "logs/missed_writes.hpp"
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
/// a file system that cannot reserve (most network ones): there it is only seen that the room ends.
///
/// Owner: Generation. Threads: the agent's one. Blocks: on the file system.
class LogRoom {
public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::int64_t kMostReserved = 1024 * 1024;  ///< of a file, ahead of its end
    static constexpr std::int64_t kHead = 16 * 1024, kTail = 32 * 1024;  ///< of a log, that stay
    static constexpr std::chrono::seconds kRetry{1};  ///< after the disk was full
    /// Where nothing can be reserved: how often it is asked what is left, and how little of it has
    /// somebody find out whether anything can be written.
    static constexpr std::chrono::seconds kLook{5};
    static constexpr std::int64_t kLittle = 1024 * 1024;
    /// With so much left, no rank fills the disk at once, and the logs have time. Many a job has
    /// ended by then.
    static constexpr std::int64_t kPlenty = std::int64_t{1} << 30;
    static constexpr std::chrono::milliseconds kFirst{20};

    LogRoom() = default;
    LogRoom(const LogRoom&) = delete;
    LogRoom& operator=(const LogRoom&) = delete;
    /// What was reserved and not used is the disk's again. No rank may write any more.
    ~LogRoom();

    /// Before the rank starts: a disk that it fills at once has room for its words already. Keeps
    /// descriptors of its own.
    void add_rank(const RankFiles& files);
    /// The logs in this folder are `other`'s no more, but ours: their rank writes on.
    void take_over(LogRoom& other, const std::filesystem::path& rank_folder);
    /// Call it every 20 ms or so, with the ranks that live. Once, when it finds the disk full,
    /// once, when it finds that the file system takes nothing any more (read-only, or input/output
    /// errors), and once, when it finds logs removed: a sentence that says so.
    std::string keep(const std::vector<pid_t>& ranks, Clock::time_point now = Clock::now());
    /// Whether the logs in this folder of a rank are on a file system that cannot reserve: when it
    /// is full, what the rank prints is lost.
    bool cannot_keep(const std::filesystem::path& rank_folder) const;
    /// At the end: what of the logs was given up, removed or not written, as a sentence; empty:
    /// nothing.
    std::string given_up() const;

private:
    struct File {
        UniqueFd fd;  // the rank's own open file: O_APPEND
        std::filesystem::path path;
        std::int64_t reserved_to = 0;
        bool reserved = false;         // ever
        std::int64_t seen = 0;         // its size
        std::int64_t gone_to = kHead;  // what is between the head and here was given up
        std::int64_t given_up = 0;
        bool can_reserve = true;
    };

    void add_file(const UniqueFd& written, const std::filesystem::path& path, std::int64_t size);
    bool may_fill_at_once() const;
    void keep(File& file, Clock::time_point now);
    void look(const File& file, Clock::time_point now);
    std::string look_further(Clock::time_point now);
    std::string look_for_broken();
    std::string look_for_removed();
    std::string removed() const;
    std::string unwritten() const;
    int reserve(File& file, std::int64_t bytes) const;
    void ask_what_is_left(const File& file, Clock::time_point now);
    std::int64_t share(const File& file, Clock::time_point now);
    void give_up_middle(File& file);
    void mark(const File& file) const;

    std::vector<File> files_;
    Clock::time_point last_added_{};
    RoomLeft left_;  // at the last look
    Clock::time_point left_until_{};
    int full_ = 0;  // errno of the last reserve that failed; 0: there is room
    Clock::time_point full_since_{};
    std::string nothing_fits_;  // why, where nothing can be reserved; empty: it does, or unknown
    Clock::time_point next_look_{}, next_look_further_{};
    bool told_ = false, told_removed_ = false;
    std::filesystem::path full_path_;
    int broken_ = 0;  // errno of a file system that takes nothing any more
    std::chrono::system_clock::time_point broken_since_{};
    MissedWrites missed_;  // since then
};

}  // namespace autolaunch::launcher
