#pragma once
#include "audit/audit_chain.hpp"
#include "base/unique_fd.hpp"

#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Of all entries of audit trails: `journalctl MESSAGE_ID=…`.
inline constexpr char kAuditMessageId[] = "6f1c0c2b5f4e4c56a1b0c3d0b7f8a9e1";
inline constexpr char kJournalSocket[] = "/run/systemd/journal/socket";

/// The fields of one entry, in systemd-journald's native form: NAME=value lines, and where a value
/// has a newline its length instead of the =. Pure.
std::string journal_entry(const std::vector<std::pair<std::string, std::string>>& fields);

/// The entry of a line of a trail. Pure.
std::string journal_entry(const AuditedLine& line);

/// systemd-journald, by its socket: root's, who adds by itself whose process it was (_UID).
/// Owner: AuditTrail. Threads: one. Blocks: never.
class Journal {
public:
    /// Nobody listens there: usable() is false, and why() says so.
    explicit Journal(std::string socket = kJournalSocket);
    bool usable() const { return static_cast<bool>(socket_); }
    const std::string& why() const { return why_; }
    /// False where it was not taken: why() says why.
    bool send(const std::string& entry);

private:
    std::string path_;
    UniqueFd socket_;
    std::string why_;
};

}  // namespace autolaunch::launcher
