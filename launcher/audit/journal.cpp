#include "audit/journal.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace autolaunch::launcher {

namespace {

constexpr char kPriority[] = "5";  // notice

std::string told(const std::string& path, int error) {
    if (error == ENOENT || error == ENOTDIR)
        return "there is no " + path + ": this machine, or container, has no systemd-journald";
    return path + " takes nothing: " + std::strerror(error);
}

// Another user may have made a socket of that name in a container's /run.
bool is_roots(const std::string& path) {
    struct stat facts {};
    return ::lstat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode) && facts.st_uid == 0;
}

}  // namespace

std::string journal_entry(const std::vector<std::pair<std::string, std::string>>& fields) {
    std::string entry;
    for (const auto& [name, value] : fields) {
        if (value.find('\n') == value.npos) {
            entry += name + '=' + value + '\n';
            continue;
        }
        std::uint64_t bytes = value.size();
        std::string length;
        for (int i = 0; i < 8; ++i, bytes >>= 8)
            length += static_cast<char>(bytes & 255);
        entry += name + '\n' + length + value + '\n';
    }
    return entry;
}

std::string journal_entry(const AuditedLine& line) {
    return journal_entry({{"MESSAGE", "autolaunch audit: " + line.line.event +
                                          (line.line.job.empty() ? "" : ", job " + line.line.job)},
                          {"MESSAGE_ID", kAuditMessageId},
                          {"PRIORITY", kPriority},
                          {"SYSLOG_IDENTIFIER", "autolaunch-audit"},
                          {"AUTOLAUNCH_AUDIT_CHAIN", line.head.chain},
                          {"AUTOLAUNCH_AUDIT_SEQ", std::to_string(line.head.seq)},
                          {"AUTOLAUNCH_AUDIT_SHA256", line.head.digest},
                          {"AUTOLAUNCH_AUDIT_EVENT", line.line.event},
                          {"AUTOLAUNCH_AUDIT_JOB", line.line.job},
                          {"AUTOLAUNCH_AUDIT_LINE", line.text}});
}

Journal::Journal(std::string socket) : path_(std::move(socket)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof address.sun_path) {
        why_ = path_ + " is too long for a socket";
        return;
    }
    std::copy(path_.begin(), path_.end(), address.sun_path);
    if (path_ == kJournalSocket && !is_roots(path_)) {
        struct stat facts {};
        why_ = ::lstat(path_.c_str(), &facts) == 0 ? path_ + " is no socket of root's"
                                                   : told(path_, errno);
        return;
    }
    UniqueFd made(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!made ||
        ::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        why_ = told(path_, errno);
        return;
    }
    socket_ = std::move(made);
}

bool Journal::send(const std::string& entry) {
    if (!usable())
        return false;
    if (::send(socket_.get(), entry.data(), entry.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(entry.size()))
        return true;
    why_ = told(path_, errno);
    return false;
}

}  // namespace autolaunch::launcher
