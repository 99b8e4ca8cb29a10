#pragma once
#include "base/environment.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/throttle.hpp"
#include "stage_out/out_folder.hpp"

#include <autolaunch/digest.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// How far the copying is; any thread may look.
struct OutCounters {
    std::atomic<std::int64_t> bytes{0}, files{0};  ///< that are at the target
    std::atomic<std::int64_t> found_files{0};      ///< of them: before
    std::atomic<std::int64_t> signs{0};            ///< grows while the target answers
};

/// Something is wrong with the target itself: other files would find the same.
class TargetError : public ExitError {
public:
    TargetError(int exit_code, const std::string& what, std::string hint)
        : ExitError(exit_code, ErrorCode::system, what, std::move(hint)) {}
};
/// Something is wrong with one file, and nothing with the others.
class FileError : public ExitError {
public:
    FileError(int exit_code, const std::string& what, std::string hint)
        : ExitError(exit_code, ErrorCode::mismatch, what, std::move(hint)) {}
};
/// Reads from where it is to its end, a piece of up to 1 MiB at a time; the digest of all. Throws
/// SystemError, which says `doing`. Blocks: as its file system does.
Digest128 digest_pieces(int fd, const std::string& doing,
                        const std::function<void(std::string_view piece)>& each);

/// What is open is what was there when the folder was walked. Throws FileError.
void require_unchanged(const OutFile& file, int fd);

/// Where the files of an entry go. Whatever happens, a name there has all of a file or nothing of
/// it. Threads: any. Blocks: as its file system or server does. Throws TargetError, and Error for
/// what is of one file alone.
class OutTarget {
public:
    struct There {
        bool is_file = true;                   ///< else something that no file of ours may replace
        std::int64_t bytes = 0, mtime_ns = 0;  ///< mtime_ns: 0 where the place knows none
        std::string link = {};                 ///< of a symbolic link: where it leads
    };
    enum class Put { done, exists };

    virtual ~OutTarget() = default;
    /// As errors name it.
    virtual std::string shown(const std::string& path) const = 0;
    virtual std::optional<There> look(const std::string& path) = 0;
    /// Of what is there. Reads all of it.
    virtual Digest128 digest(const std::string& path) = 0;
    /// Copies what is open as `fd`, compares what came, and publishes it; `exists`: something has
    /// that name by now, and nothing was changed. With `replaces` it takes that one's place.
    virtual Put put(const OutFile& file, int fd, bool replaces, Digest128& digest) = 0;
    /// What an attempt that was killed behind its last step has left beside a file that is there.
    virtual void clear(const std::string& path) = 0;
    virtual bool keeps_links() const = 0;
    virtual Put put_link(const OutFile& file, bool replaces) = 0;
    virtual void make_folder(const OutFile& folder) = 0;
    /// Names are durable after it.
    virtual void finish() = 0;
};

struct OutTerms {
    OutCounters* counters;
    Throttle* throttle;
    std::string mark;  ///< in the names of what is unfinished: the same for the same job and node
    /// Of a bucket: an upload that was begun is gone on with. Not where another node may be at it.
    bool may_resume = true;
};
/// A folder of a file system; it is made where it is missing.
std::unique_ptr<OutTarget> make_folder_target(const std::string& folder, const OutTerms& terms);
/// "s3://bucket/prefix/"
std::unique_ptr<OutTarget> make_bucket_target(const std::string& place, const OutTerms& terms,
                                              const Environment& environment);

}  // namespace autolaunch::launcher
