#include "audit/audit_chain.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "base/workspace.hpp"
#include "site/audit_kinds.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr auto kLockTime = 5s;
constexpr auto kLockPause = 5ms;
constexpr std::size_t kTailBytes = 4 * kLongestAuditLine;
constexpr std::string_view kSuffix = ".jsonl";
constexpr int kSeqDigits = 12;

std::uint64_t size_of(int fd, const fs::path& path) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0)
        throw SystemError(errno, "look at " + path.string());
    return static_cast<std::uint64_t>(facts.st_size);
}

std::string read_from(int fd, std::uint64_t offset, std::size_t most, const fs::path& path) {
    std::string bytes(most, '\0');
    std::size_t filled = 0;
    while (filled < most) {
        const ssize_t got =
            ::pread(fd, bytes.data() + filled, most - filled, static_cast<off_t>(offset + filled));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw SystemError(errno, "read " + path.string());
        if (got == 0)
            break;
        filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
}

std::string numbered(const std::string& name, std::uint64_t seq) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%0*llu", kSeqDigits,
                  static_cast<unsigned long long>(seq));
    return name + '.' + digits + std::string(kSuffix);
}

/// The number in the name of a file that was current once; nothing: it is none.
std::optional<std::uint64_t> seq_of_file(const std::string& file, const std::string& name) {
    if (!file.starts_with(name + '.') || !file.ends_with(kSuffix) ||
        file.size() != name.size() + 1 + kSeqDigits + kSuffix.size())
        return std::nullopt;
    long long seq = 0;
    if (!parse_integer(file.substr(name.size() + 1, kSeqDigits), seq) || seq < 0)
        return std::nullopt;
    return static_cast<std::uint64_t>(seq);
}

std::vector<std::pair<std::uint64_t, fs::path>> older_files(const fs::path& folder,
                                                            const std::string& name) {
    std::vector<std::pair<std::uint64_t, fs::path>> found;
    std::error_code error;
    const auto all = list_folder(folder, error, name);
    if (error && error != std::errc::no_such_file_or_directory)
        throw SystemError(error.value(), "list " + folder.string());
    for (const fs::path& file : all)
        if (const auto seq = seq_of_file(file.filename().string(), name))
            found.emplace_back(*seq, file);
    std::sort(found.begin(), found.end());
    return found;
}

double days_since(std::chrono::system_clock::time_point at) {
    return std::chrono::duration<double, std::ratio<86400>>(std::chrono::system_clock::now() - at)
        .count();
}

/// What a file's last bytes say of its newest line.
struct Tail {
    std::string last;        ///< the last whole line of ours; empty: none
    std::string after;       ///< what stands behind it, without newline; empty: nothing
    bool ends_open = false;  ///< `after` has no newline
};

Tail look_at_tail(std::string_view bytes) {
    Tail tail;
    tail.ends_open = !bytes.empty() && bytes.back() != '\n';
    std::string_view rest = bytes;
    if (!rest.empty() && rest.back() == '\n')
        rest.remove_suffix(1);
    while (!rest.empty()) {
        const std::size_t begin = rest.rfind('\n') == rest.npos ? 0 : rest.rfind('\n') + 1;
        const std::string_view line = rest.substr(begin);
        if (parse_audit_line(line)) {
            tail.last = line;
            return tail;
        }
        if (tail.after.empty())
            tail.after = line;
        rest = begin == 0 ? std::string_view{} : rest.substr(0, begin - 1);
    }
    return tail;
}

}  // namespace

/// Held while a line is written, so that its number and its predecessor are right.
class AuditChain::Lock {
public:
    Lock(int fd, const fs::path& path) : fd_(fd) {
        for (const auto deadline = Deadline::after(kLockTime);;) {
            if (::flock(fd, LOCK_EX | LOCK_NB) == 0)
                return;
            if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) {
                fd_ = -1;  // no locks on this file system: one writer is the usual case
                return;
            }
            if (errno != EWOULDBLOCK && errno != EINTR)
                throw SystemError(errno, "lock " + path.string());
            if (deadline.passed())
                throw SystemError(EBUSY, "lock " + path.string(),
                                  "another process holds it: fuser shows which");
            std::this_thread::sleep_for(kLockPause);
        }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
        if (fd_ >= 0)
            ::flock(fd_, LOCK_UN);
    }

private:
    int fd_;
};

namespace {

// Whatever the job's workspace says: another group than the folder's above must not come to it.
OwnedFolder make_audit_folder(const fs::path& path, const Workspace& made) {
    std::vector<fs::path> missing;
    std::error_code unknown;
    for (fs::path folder = path; !folder.empty() && !fs::is_directory(folder, unknown);
         folder = folder.parent_path())
        missing.push_back(folder);
    refuse_open_parents(path / "trail", {});
    for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder)
        make_one_folder(*folder, made);
    return OwnedFolder::open(path);
}

}  // namespace

AuditChain::AuditChain(const fs::path& folder, std::string name, AuditActor actor,
                       AuditRetention retention)
    : folder_(make_audit_folder(folder, {.folder = mode_t(retention.for_group ? 0750 : 0700)})),
      name_(std::move(name)),
      actor_(std::move(actor)),
      retention_(retention) {}

void AuditChain::open_file() {
    fd_ = folder_.append(file_name(), 0600);
    if (retention_.for_group && size_of(fd_.get(), path()) == 0 && ::fchmod(fd_.get(), 0640) != 0)
        throw SystemError(errno, "let the group read " + path().string());
    reading_.reset(::openat(folder_.fd(), file_name().c_str(),
                            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!reading_)
        throw SystemError(errno, "open " + path().string());
    known_bytes_ = 0;
    has_any_ = false;
}

// Another process may have put the next file in its place.
bool AuditChain::is_current() const {
    struct stat held {
    }, found{};
    return fd_ && ::fstat(fd_.get(), &held) == 0 &&
           ::fstatat(folder_.fd(), file_name().c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

std::string AuditChain::read_tail(std::uint64_t size) const {
    const std::uint64_t from = size > kTailBytes ? size - kTailBytes : 0;
    return read_from(reading_.get(), from, static_cast<std::size_t>(size - from), path());
}

std::string AuditChain::first_line() const {
    const std::string start = read_from(reading_.get(), 0, 2 * kLongestAuditLine, path());
    return start.substr(0, start.find('\n'));
}

// The lock is held. What others, or a process that was killed, have written since.
void AuditChain::catch_up(const OnLine& on_line) {
    const std::uint64_t size = size_of(reading_.get(), path());
    if (has_any_ && size == known_bytes_)
        return;
    if (size == 0)
        return continue_from_older(on_line);
    const Tail tail = look_at_tail(read_tail(size));
    if (tail.last.empty())
        throw Error(ErrorCode::corrupt,
                    path().string() + " does not end with lines of an audit trail",
                    "move it away, and keep it: the next line begins another trail");
    const AuditLine last = *parse_audit_line(tail.last);
    const auto first = parse_audit_line(first_line());
    if (!first || !first->detail.contains("chain") || !first->detail.at("chain").is_string())
        throw Error(ErrorCode::corrupt, path().string() + " does not begin as an audit trail",
                    "move it away, and keep it: the next line begins another trail");
    head_ = {first->detail.at("chain").get<std::string>(), last.seq, audit_digest(tail.last)};
    has_any_ = true;
    known_bytes_ = size;
    if (tail.ends_open)
        write_bytes("\n");
    if (tail.after.empty())
        return;
    head_.digest = audit_digest(tail.after);
    write(audit_kind::kRecovered, {{"torn_bytes", tail.after.size()}}, "", on_line);
}

void AuditChain::begin_chain(const OnLine& on_line) {
    head_ = {random_hex(16), 0, no_audit_digest()};
    has_any_ = false;
    write(audit_kind::kOpened, {{"chain", head_.chain}}, "", on_line);
}

// An empty file: the first of all, or the next after others.
void AuditChain::continue_from_older(const OnLine& on_line) {
    const auto older = older_files(folder_.path(), name_);
    known_bytes_ = 0;
    if (older.empty())
        return begin_chain(on_line);
    const fs::path& before = older.back().second;
    const UniqueFd fd(::openat(folder_.fd(), before.filename().c_str(),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd)
        throw SystemError(errno, "open " + before.string());
    const std::uint64_t size = size_of(fd.get(), before);
    const std::uint64_t from = size > kTailBytes ? size - kTailBytes : 0;
    const Tail tail =
        look_at_tail(read_from(fd.get(), from, static_cast<std::size_t>(size - from), before));
    const std::string start = read_from(fd.get(), 0, 2 * kLongestAuditLine, before);
    const auto first = parse_audit_line(start.substr(0, start.find('\n')));
    const auto last = parse_audit_line(tail.last);
    if (!first || !last || !first->detail.contains("chain"))
        return begin_chain(on_line);
    head_ = {first->detail.at("chain").get<std::string>(), last->seq,
             audit_digest(tail.after.empty() ? tail.last : tail.after)};
    has_any_ = true;
    write(audit_kind::kRotated, {{"chain", head_.chain}, {"after", before.filename().string()}}, "",
          on_line);
}

// Whole or not at all: of a line that found no room nothing stays.
void AuditChain::write_bytes(const std::string& bytes) {
    const std::uint64_t before = size_of(fd_.get(), path());
    try {
        write_all(fd_.get(), bytes, path().string());
        if (::fdatasync(fd_.get()) != 0 && errno != EINVAL && errno != EROFS)
            throw SystemError(errno, "keep " + path().string());
    } catch (const SystemError&) {
        if (size_of(fd_.get(), path()) > before &&
            ::ftruncate(fd_.get(), static_cast<off_t>(before)) != 0)
            known_bytes_ = 0;  // a part stays: the next line tells of it
        throw;
    }
    known_bytes_ = before + bytes.size();
}

void AuditChain::write(const std::string& event, Json detail, const std::string& job,
                       const OnLine& on_line) {
    AuditLine line;
    line.seq = has_any_ ? head_.seq + 1 : 0;
    line.prev = head_.digest;
    line.time = audit_time(std::chrono::system_clock::now());
    line.event = event;
    line.actor = actor_;
    line.actor.pid = static_cast<int>(::getpid());
    line.job = job;
    line.detail = std::move(detail);
    const std::string text = to_text(line);
    write_bytes(text + '\n');
    head_.seq = line.seq;
    head_.digest = audit_digest(text);
    has_any_ = true;
    if (on_line)
        on_line({head_, line, text});
}

// The lock is held, and the newest line is known.
bool AuditChain::rotate_if_due() {
    const auto first = parse_audit_line(first_line());
    const auto began = first ? parse_audit_time(first->time) : std::nullopt;
    const bool is_old = began && days_since(*began) > retention_.most_days;
    if (!first || (known_bytes_ < retention_.most_bytes && !is_old))
        return false;
    const std::string to = numbered(name_, first->seq);
    if (::renameat2(folder_.fd(), file_name().c_str(), folder_.fd(), to.c_str(),
                    RENAME_NOREPLACE) != 0)
        throw SystemError(errno, "rename " + path().string() + " to " + to);
    return true;
}

// Never what is younger, and the oldest first: the trail goes on from a line that names what is
// gone.
void AuditChain::expire(const OnLine& on_line) {
    if (!retention_.keep_days)
        return;
    for (const auto& [seq, file] : older_files(folder_.path(), name_)) {
        const UniqueFd fd(::openat(folder_.fd(), file.filename().c_str(),
                                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!fd)
            return;
        const std::uint64_t size = size_of(fd.get(), file);
        const std::uint64_t from = size > kTailBytes ? size - kTailBytes : 0;
        const Tail tail =
            look_at_tail(read_from(fd.get(), from, static_cast<std::size_t>(size - from), file));
        const auto last = parse_audit_line(tail.last);
        const auto at = last ? parse_audit_time(last->time) : std::nullopt;
        if (!at || days_since(*at) <= *retention_.keep_days)
            return;
        write(audit_kind::kExpired,
              {{"file", file.filename().string()},
               {"first", seq},
               {"last", last->seq},
               {"sha256", audit_digest(tail.after.empty() ? tail.last : tail.after)},
               {"keep_days", *retention_.keep_days}},
              "", on_line);
        folder_.remove(file.filename());
    }
}

void AuditChain::append(const std::string& event, Json detail, const std::string& job,
                        const OnLine& on_line) {
    for (int tries = 4; tries > 0; --tries) {
        if (!is_current())
            open_file();
        const Lock lock(fd_.get(), path());
        if (!is_current())
            continue;  // another process was faster: the next file is there
        catch_up(on_line);
        if (rotate_if_due())
            continue;
        expire(on_line);
        return write(event, std::move(detail), job, on_line);
    }
    throw SystemError(EBUSY, "write " + path().string(),
                      "somebody exchanges that file all the time");
}

std::vector<fs::path> audit_files(const fs::path& current) {
    std::string name = current.filename().string();
    if (name.ends_with(kSuffix))
        name.resize(name.size() - kSuffix.size());
    std::vector<fs::path> files;
    for (auto& [seq, file] :
         older_files(current.has_parent_path() ? current.parent_path() : fs::path("."), name))
        files.push_back(std::move(file));
    if (path_exists(current))
        files.push_back(current);
    return files;
}

}  // namespace autolaunch::launcher
