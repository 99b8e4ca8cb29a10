#pragma once
#include "base/owned_folder.hpp"
#include "base/unique_fd.hpp"
#include "hand_over/piece_store.hpp"
#include "hand_over/shared_file.hpp"

#include <autolaunch/digest.hpp>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Copies of shared files on this node's own disk, which stay there for the jobs after this one. A
/// folder of this user alone; docs/python-start.md has its names. A copy is written under another
/// name and renamed once all of it is there, so what a killed process leaves is never taken for
/// one; and nothing is used before its digest was compared with its name.
///
/// Owner: one. Threads: one, but for start(), publish() and adopt(), which any may call.
class NodeCache {
public:
    /// A copy that is being written.
    struct Part {
        UniqueFd fd;
        std::string name;
    };
    struct Copy {
        std::string name;
        std::vector<Digest128> digests;  ///< of its chunks
    };

    /// `folder` is made where it is missing. Throws Error with the remedy where it is another
    /// user's, lets others in, is no place to run programs from (if they are) or is itself of a
    /// network.
    NodeCache(const std::filesystem::path& folder, std::int64_t most_bytes,
              bool are_programs = true);

    const std::filesystem::path& path() const { return folder_.path(); }
    int fd() const { return folder_.fd(); }
    std::string path_of(const std::string& name) const { return (path() / name).string(); }

    /// A whole copy of that very file, read and compared; one that is damaged is removed.
    std::optional<Copy> find(const SharedFile& file);
    /// Removes what was not used for a day, the oldest first, until `bytes` more fit. What is newer
    /// stays: then it may not fit.
    void make_room(std::int64_t bytes);
    /// Takes the room of all of it at once. Throws SystemError, ENOSPC where there is none, also
    /// within the limit.
    Part start(const SharedFile& file);
    /// Returns the name that it has from now on. Throws SystemError.
    std::string publish(const Part& part, const SharedFile& file,
                        const std::vector<Digest128>& digests);
    void drop(const Part& part, const SharedFile& file);
    /// A whole copy of a file on the same disk into which nobody writes any more: it is linked, not
    /// copied, and read for its digests. Any thread. Throws SystemError.
    Copy adopt(const SharedFile& file);

    /// What is here of a file of which not all is wanted. Throws SystemError.
    std::shared_ptr<PieceStore> open_pieces(const SharedFile& file);

private:
    void list();
    void remove(const std::string& name);

    OwnedFolder folder_;
    CacheRoom room_;
    std::atomic<unsigned> parts_{0};
    std::map<std::string, std::string> names_;  ///< of whole copies, by what a name begins with
    std::vector<std::string> in_pieces_;        ///< keys
};

/// Which copy a file's is, whatever its bytes: the first half of its name. Pure.
std::string copy_key(const SharedFile& file);

}  // namespace autolaunch::launcher
