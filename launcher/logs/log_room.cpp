#include "logs/log_room.hpp"

#include "base/room_on_disk.hpp"
#include "report/units.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::chrono::milliseconds kLeftStands{10};
constexpr std::int64_t kWorthIt = 4 * kPage;  // less of a log is not given up at a time
constexpr char kMark[] =
    "\n... the disk was full: what stood from here to the next line was given up by autolaunch "
    "...\n";

std::int64_t whole_pages(std::int64_t bytes) { return bytes / kPage * kPage; }

bool is_broken(int error) {
    return error == EROFS || error == EIO || error == ESTALE || error == ENXIO || error == ENODEV ||
           error == ESHUTDOWN || error == EUCLEAN;
}

std::int64_t size_of_file(int fd) {
    struct stat facts {};
    return ::fstat(fd, &facts) == 0 ? facts.st_size : 0;
}

}  // namespace

// No rank writes any more: what is behind the end was only reserved.
LogRoom::~LogRoom() {
    for (const File& file : files_) {
        if (!file.reserved)
            continue;
        const std::int64_t size = size_of_file(file.fd.get());
        if (file.reserved_to > size && ::ftruncate(file.fd.get(), size) != 0)
            continue;  // it stays reserved until the file is removed
    }
}

void LogRoom::add_rank(const RankFiles& files) {
    add_file(files.out, files.stdout_path, files.stdout_start);
    add_file(files.err, files.stderr_path, files.stderr_start);
}

void LogRoom::add_file(const UniqueFd& written, const std::filesystem::path& path,
                       std::int64_t size) {
    UniqueFd fd(::fcntl(written.get(), F_DUPFD_CLOEXEC, 0));
    if (!fd)
        return;  // no room is kept for this one
    File file{.fd = std::move(fd), .path = path};
    file.reserved_to = file.seen = size;
    file.gone_to = std::max(kHead, (size + kPage - 1) / kPage * kPage);  // of an earlier run: stays
    files_.push_back(std::move(file));
    last_added_ = Clock::now();
    ask_what_is_left(files_.back(), last_added_);
    if (may_fill_at_once())
        keep(files_.back(), last_added_);
}

void LogRoom::take_over(LogRoom& other, const std::filesystem::path& rank_folder) {
    const auto theirs = [&](const File& file) { return file.path.parent_path() != rank_folder; };
    const auto first = std::stable_partition(other.files_.begin(), other.files_.end(), theirs);
    files_.insert(files_.end(), std::make_move_iterator(first),
                  std::make_move_iterator(other.files_.end()));
    other.files_.erase(first, other.files_.end());
    last_added_ = Clock::now();
}

bool LogRoom::may_fill_at_once() const {
    return !left_.knows_quotas || left_.bytes < kPlenty || full_ != 0 ||
           !files_.front().can_reserve;
}

std::string LogRoom::keep(const std::vector<pid_t>& ranks, Clock::time_point now) {
    if (broken_ != 0)
        missed_.look(ranks);
    if (now - last_added_ < kFirst && !may_fill_at_once())
        return {};
    for (File& file : files_) {
        if (file.can_reserve)
            keep(file, now);
        if (!file.can_reserve && now >= next_look_)
            look(file, now);
    }
    if ((full_ == 0 && nothing_fits_.empty()) || std::exchange(told_, true))
        return look_further(now);
    const bool kept = std::all_of(files_.begin(), files_.end(),
                                  [](const File& file) { return file.can_reserve; });
    const std::string why = full_ != 0 ? std::strerror(full_) : nothing_fits_;
    return "no room for what the ranks print (" + why + ": " + full_path_.string() + "): " +
           (kept ? "they go on, and the middle of their logs is given up for what comes"
                 : "this file system can keep none for it, so their next lines are lost, and a "
                   "rank that minds that ends") +
           "; make room there";
}

// A rank that writes to a file without a name meets no error, and all of it is gone with the rank.
std::string LogRoom::removed() const {
    std::size_t logs = 0;
    std::uint64_t bytes = 0;
    std::string first;
    for (const File& file : files_) {
        struct stat now {};
        if (::fstat(file.fd.get(), &now) != 0 || now.st_nlink > 0)
            continue;
        bytes += static_cast<std::uint64_t>(now.st_size);
        if (++logs == 1)
            first = file.path.string();
    }
    if (logs == 0)
        return {};
    return (logs == 1 ? first + " was" : std::to_string(logs) + " logs, as " + first + ", were") +
           " removed while ranks write there: " + format_bytes(bytes);
}

std::string LogRoom::look_further(Clock::time_point now) {
    if (now < next_look_further_)
        return {};
    next_look_further_ = now + kLook;
    const std::string broken = look_for_broken();
    return broken.empty() ? look_for_removed() : broken;
}

// A file system that has found itself damaged turns read-only, and a device that is gone answers
// with errors, also to those who have their files open. A block more is asked for, not written.
std::string LogRoom::look_for_broken() {
    if (broken_ != 0 || files_.empty())
        return {};
    File& file = files_.front();
    const std::int64_t from = std::max(file.seen, file.reserved_to);
    if (::fallocate(file.fd.get(), FALLOC_FL_KEEP_SIZE, from, 1) == 0) {
        file.reserved_to = from + 1;
        return {};
    }
    if (!is_broken(errno))
        return {};
    broken_ = errno;
    broken_since_ = std::chrono::system_clock::now();
    return std::string("what the ranks print cannot be written any more (") +
           std::strerror(broken_) + ": " + file.path.string() +
           "): their next lines are lost, and a rank that minds that ends; the kernel's log may "
           "say why";
}

// How many bytes nobody knows: the ranks write themselves.
std::string LogRoom::unwritten() const {
    if (broken_ == 0)
        return {};
    return fmt::format(
        "what ranks printed from {:%H:%M:%S} UTC on is missing in their logs, as {}: {}; they "
        "called "
        "write(2) {} times since, for whatever file",
        std::chrono::floor<std::chrono::seconds>(broken_since_), files_.front().path.string(),
        std::strerror(broken_), missed_.calls());
}

std::string LogRoom::look_for_removed() {
    if (told_removed_)
        return {};
    const std::string gone = removed();
    told_removed_ = !gone.empty();
    return gone.empty() ? gone
                        : gone +
                              " so far, and what comes, will be lost when they end; the "
                              "console still shows it";
}

// One file system for all of them, as a rule. It is asked seldom, for it is a server's.
void LogRoom::look(const File& file, Clock::time_point now) {
    next_look_ = now + kLook;
    if (room_left(file.fd.get()).bytes >= kLittle)
        return nothing_fits_.clear();
    nothing_fits_ = why_no_room(file.path.parent_path());
    full_path_ = file.path;
}

bool LogRoom::cannot_keep(const std::filesystem::path& rank_folder) const {
    return std::any_of(files_.begin(), files_.end(), [&](const File& file) {
        return !file.can_reserve && file.path.parent_path() == rank_folder;
    });
}

void LogRoom::keep(File& file, Clock::time_point now) {
    const std::int64_t size = size_of_file(file.fd.get());
    if (size < file.seen) {  // the rank truncated its log, and what was reserved with it
        file.reserved_to = size;
        file.gone_to = kHead;
    }
    const std::int64_t grown = std::max(size - file.seen, std::int64_t{0});
    file.seen = size;
    const std::int64_t ahead = file.reserved_to - size;
    if (ahead > kMostReserved / 2)
        return;
    // In time: much may come before the next look, most of all from one that prints much.
    const std::int64_t enough =
        std::max(2 * grown, std::clamp(size / 4, 4 * kPage, kMostReserved / 4));
    const bool wait = full_ != 0 && now - full_since_ < kRetry;
    if (!wait) {
        const std::int64_t wanted = share(file, now);
        if (ahead > std::max(wanted / 2, enough))
            return;
        const int error = reserve(file, std::max(wanted, 2 * enough));
        if (error == 0) {
            full_ = 0;
            return;
        }
        if (!is_want_of_room(error)) {
            file.can_reserve = false;
            return;
        }
        full_ = error;
        full_since_ = now;
        full_path_ = file.path;
    }
    if (ahead < enough)
        give_up_middle(file);
}

// The files are on one file system, which need not be asked for each.
void LogRoom::ask_what_is_left(const File& file, Clock::time_point now) {
    if (now < left_until_)
        return;
    left_ = room_left(file.fd.get());
    left_until_ = now + kLeftStands;
}

// All files together leave most of it to others.
std::int64_t LogRoom::share(const File& file, Clock::time_point now) {
    ask_what_is_left(file, now);
    return std::clamp(whole_pages(left_.bytes / static_cast<std::int64_t>(8 * files_.size())),
                      kPage, kMostReserved);
}

// The errno of what failed.
int LogRoom::reserve(File& file, std::int64_t bytes) const {
    const std::int64_t size = file.seen;
    const std::int64_t from = std::max(size, file.reserved_to);
    const std::int64_t to = whole_pages(size + bytes) + kPage;
    if (to <= from)
        return 0;
    while (::fallocate(file.fd.get(), FALLOC_FL_KEEP_SIZE, from, to - from) != 0)
        if (errno != EINTR)
            return errno;
    file.reserved_to = to;
    file.reserved = true;
    return 0;
}

// Its blocks go to the disk and come back as reserve, unless somebody else was faster.
void LogRoom::give_up_middle(File& file) {
    const std::int64_t to = whole_pages(file.seen - kTail);
    const std::int64_t bytes = to - file.gone_to;
    if (bytes < kWorthIt)
        return;
    constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (::fallocate(file.fd.get(), kHole, file.gone_to, bytes) != 0) {
        file.can_reserve = false;
        return;
    }
    if (file.given_up == 0)
        mark(file);
    file.gone_to = to;
    file.given_up += bytes;
    for (std::int64_t part = std::min(bytes, kMostReserved); part >= kPage; part /= 2)
        if (reserve(file, file.reserved_to - file.seen + part - kPage) == 0)
            return;
}

// In the last bytes before the gap, whose block is there. With O_APPEND it would go to the end.
// Opened by the descriptor, not by the name: who could exchange the name must not make us write.
void LogRoom::mark(const File& file) const {
    const std::string again = "/proc/self/fd/" + std::to_string(file.fd.get());
    const UniqueFd fd(::open(again.c_str(), O_WRONLY | O_CLOEXEC));
    const std::int64_t length = sizeof kMark - 1;
    const ssize_t written = ::pwrite(fd.get(), kMark, sizeof kMark - 1, file.gone_to - length);
    static_cast<void>(written);  // the sentence on the screen says it too
}

std::string LogRoom::given_up() const {
    std::int64_t bytes = 0;
    std::string first;
    std::size_t logs = 0;
    for (const File& file : files_) {
        if (file.given_up == 0)
            continue;
        bytes += file.given_up;
        if (++logs == 1)
            first = file.path.string();
    }
    const std::string broken = unwritten();
    if (!broken.empty())
        return broken;
    const std::string gone = removed();
    if (logs == 0)
        return gone.empty() ? gone : gone + " are lost";
    return (gone.empty() ? gone : gone + " are lost; ") +
           "the disk was full: " + format_bytes(static_cast<std::uint64_t>(bytes)) +
           " of what ranks printed are missing in the middle of " +
           (logs == 1 ? first : std::to_string(logs) + " logs, as " + first);
}

}  // namespace autolaunch::launcher
