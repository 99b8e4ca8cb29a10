#pragma once
#include "audit/audit_line.hpp"
#include "base/owned_folder.hpp"
#include "base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The newest line of a trail: what an anchor keeps out of the user's reach.
struct AuditHead {
    std::string chain;  ///< 32 digits, of the trail's first line
    std::uint64_t seq = 0;
    std::string digest;  ///< of that line
    bool operator==(const AuditHead&) const = default;
};

/// A line that was written just now, on its way to anchors.
struct AuditedLine {
    AuditHead head;
    AuditLine line;
    std::string text;
};

struct AuditRetention {
    std::uint64_t most_bytes = std::uint64_t{16} << 20;  ///< of a file; then comes the next
    int most_days = 30;                                  ///< the same
    std::optional<int> keep_days = {};                   ///< nothing: all files stay
    /// Of what is made: 0640 in 0750 for the group that the administrator gave the folder above.
    bool for_group = false;
};

/// One trail of one user on one node, in files of one folder: FOLDER/NAME.jsonl, and those before
/// it as NAME.SEQ.jsonl, SEQ being the number of their first line. Lines are only ever appended,
/// each with one write(2) under a lock, so that several processes of the user may write: a job's
/// agent and `autolaunch ckpt`. A line that a killed process left torn stays as it is, and the next
/// one says so.
///
/// Owner: AuditTrail. Threads: one. Blocks: on the file system; for the lock of another writer 5 s
/// at most.
class AuditChain {
public:
    /// Makes folder and file where they are missing. Throws Error: the folder is another user's, or
    /// everybody may write to one that it is in.
    AuditChain(const std::filesystem::path& folder, std::string name, AuditActor actor,
               AuditRetention retention = {});

    using OnLine = std::function<void(const AuditedLine&)>;
    /// `on_line` gets every line that was written, those that the trail writes of itself too.
    /// Throws SystemError where it cannot be written whole; nothing of it stays then.
    void append(const std::string& event, nlohmann::ordered_json detail, const std::string& job,
                const OnLine& on_line = {});

    /// Of the newest line that this process knows of.
    const AuditHead& head() const { return head_; }
    std::filesystem::path path() const { return folder_.path() / file_name(); }

private:
    class Lock;

    std::string file_name() const { return name_ + ".jsonl"; }
    void open_file();
    void catch_up(const OnLine& on_line);
    void begin_chain(const OnLine& on_line);
    void continue_from_older(const OnLine& on_line);
    void write(const std::string& event, nlohmann::ordered_json detail, const std::string& job,
               const OnLine& on_line);
    void write_bytes(const std::string& bytes);
    bool rotate_if_due();
    void expire(const OnLine& on_line);
    bool is_current() const;
    std::string read_tail(std::uint64_t size) const;
    std::string first_line() const;

    OwnedFolder folder_;
    std::string name_;
    AuditActor actor_;
    AuditRetention retention_;
    UniqueFd fd_;       ///< to append
    UniqueFd reading_;  ///< the same file
    std::uint64_t known_bytes_ = 0;
    bool has_any_ = false;  ///< a line of the chain is known
    AuditHead head_;
};

/// Files of a trail in their order, the current one last. `name` may be given, else of all trails
/// in the folder there must be one.
std::vector<std::filesystem::path> audit_files(const std::filesystem::path& current);

}  // namespace autolaunch::launcher
