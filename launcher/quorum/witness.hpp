#pragma once
#include <cstdint>
#include <filesystem>

namespace autolaunch::launcher {

/// The third vote of two nodes that share a folder: a file that one of them alone can create, by
/// link(2), which is atomic on every file system that several machines share.
///
/// Owner: Quorum. Threads: one. Blocks: on the file system.
class Witness {
public:
    Witness(std::filesystem::path folder, std::uint64_t incarnation);
    /// Shows the other that the folder is ours, too.
    void enter();
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;
    ~Witness();

    /// The other's file is seen here: the folder is one for both.
    bool shares_folder_with(std::uint64_t incarnation) const;
    /// True: it is ours, from now on or from before. Of these two voters it is so once and for all.
    /// `job` and `formed` are theirs alone.
    bool claim(std::int64_t job, int formed) const;
    /// The job is over, and its end recorded: no file of a vote stays in the folder, whosever.
    void clear() const;

private:
    std::filesystem::path file_of(std::uint64_t incarnation) const;

    std::filesystem::path folder_, own_;
    bool has_entered_ = false;
};

}  // namespace autolaunch::launcher
