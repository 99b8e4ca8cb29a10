#pragma once
#include "base/owned_folder.hpp"
#include "base/unique_fd.hpp"
#include "stage_out/out_words.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One file, folder or link that ranks have left.
struct OutFile {
    enum class Kind { folder, file, link, other, closed };  ///< closed: what is in it is not known
    std::string path;                                       ///< below the entry's folder
    Kind kind = Kind::file;
    unsigned mode = 0;
    std::int64_t bytes = 0, mtime_ns = 0;
    std::string target = {};  ///< of a link; of what is closed: why
};
std::int64_t bytes_of(const std::vector<OutFile>& files);
/// Without folders.
std::int64_t count_of(const std::vector<OutFile>& files);

/// What a job's ranks write on this node's own disk until it was copied out
/// (docs/stage-out.md has the folder byte by byte). It is this node's part of this job's, over all
/// generations; whoever works with it holds its lock, and the kernel lets go of that when a process
/// is killed. Nothing in it is removed but what was copied, or what somebody says goes.
///
/// Owner: one. Threads: one. Blocks: while the disk does.
class OutFolder {
public:
    /// A new one, whose lock others may share. `picks_up`: one that an earlier start of this very
    /// job has left is gone on with (a requeue). Throws ExitError 73 where `scratch` cannot be
    /// used.
    static OutFolder make(const std::filesystem::path& scratch, const OutOrder& order,
                          bool picks_up);
    /// Of a folder that is there. `alone`: nobody else has it. Nothing where somebody does, or it
    /// is gone; throws Error{corrupt} where its order cannot be read.
    static std::optional<OutFolder> open(const std::filesystem::path& path, bool alone);

    const std::filesystem::path& path() const { return folder_.path(); }
    const OutOrder& order() const { return order_; }
    /// It has what an earlier start of the job has written.
    bool was_here() const { return was_here_; }
    /// Where ranks write.
    std::filesystem::path path_of(const std::string& name) const;
    /// Anything of that name, also what is no folder any more.
    bool has(const std::string& name) const;
    /// Anything but folders, or what cannot be listed. Looks no further than the first.
    bool has_files(const std::string& name) const;
    /// All that is there. Links are not followed; a folder that cannot be listed is `closed`.
    /// Throws ExitError 66 where nothing of it can be.
    std::vector<OutFile> walk(const std::string& name) const;
    /// Names beside the entries' folders, which nobody copies.
    std::vector<std::string> strangers() const;
    /// For reading; empty where it cannot be opened, errno says why.
    UniqueFd open_file(const std::string& name, const OutFile& file) const;

    OutEnd end() const;
    void set_end(OutEnd end) const;
    /// What was copied of an entry: lines that are written at the end. See OutJournal.
    UniqueFd open_journal(const std::string& name) const;
    std::string read_journal(const std::string& name) const;

    /// All files of an entry are at its target, as far as the journal knows.
    bool is_copied(const std::string& name) const;
    /// Somebody who finishes the copying says more than the spec did.
    void set_terms(bool may_overwrite, bool by_node);

    /// What ranks wrote under that name, and what is known of its copies.
    void remove(const std::string& name) const;
    /// All of it, if no entry is left in it.
    void remove_if_empty() const;

private:
    OutFolder(OwnedFolder folder, UniqueFd lock, OutOrder order, bool was_here);

    OwnedFolder folder_;
    UniqueFd lock_;
    OutOrder order_;
    bool was_here_ = false;
};

/// The folder of all jobs' results of this user on this node; it need not be there.
std::filesystem::path out_root(const std::filesystem::path& scratch);

/// One that is there.
struct LeftOut {
    std::filesystem::path path;
    bool is_held = false;  ///< its job runs, or somebody copies it
    std::string why_unreadable = {};
    OutOrder order = {};
    OutEnd end = OutEnd::unknown;
    struct Part {
        OutEntry entry;
        std::int64_t files = 0, bytes = 0;
    };
    std::vector<Part> parts = {};
    std::int64_t changed_s = 0;  ///< the newest change, seconds since 1970

    std::string job() const { return path.filename().string(); }
    std::int64_t bytes() const;
    std::int64_t files() const;
};
/// The names of those that have a file, whose job is over and was not requeued. Looks no further
/// than the first file of each.
std::vector<std::string> jobs_not_copied(const std::filesystem::path& scratch);
/// Removes a job's folder with all that is in it. False: somebody has it.
bool remove_all_of(const std::filesystem::path& job);
/// By name. Throws SystemError where the folder cannot be listed. One without any file, of a job
/// that was killed, is removed.
std::vector<LeftOut> list_left_out(const std::filesystem::path& scratch);

}  // namespace autolaunch::launcher
