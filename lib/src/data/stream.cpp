#include "data/stream.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/unique_fd.hpp"
#include "session/environment.hpp"

#include <autolaunch/data/staged_files.hpp>
#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>

namespace autolaunch::data {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;  // the kernel's own limit
constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{100};

/// Of a file of the launcher's that is not larger than that; nothing: there is none.
std::optional<std::string> text_of_file(const fs::path& path, std::size_t most) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ENOENT)
        return std::nullopt;
    struct stat facts {};
    if (!file || ::fstat(file.get(), &facts) != 0)
        throw SystemError(errno, "read " + path.string());
    if (!S_ISREG(facts.st_mode) || static_cast<std::uint64_t>(facts.st_size) > most)
        throw Error(ErrorCode::corrupt, path.string() + " is no file of the launcher's");
    std::string text(static_cast<std::size_t>(facts.st_size), '\0');
    for (std::size_t got = 0; got < text.size();) {
        const ssize_t some =
            ::pread(file.get(), text.data() + got, text.size() - got, static_cast<off_t>(got));
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            throw SystemError(errno, "read " + path.string());
        if (some == 0)
            throw Error(ErrorCode::corrupt, path.string() + " was cut");
        got += static_cast<std::size_t>(some);
    }
    return text;
}

/// Where a path leads once all of it is there: folders and links are from the beginning on.
fs::path resolved(fs::path path) {
    std::error_code error;
    for (int links = 0; links < kMostLinks; ++links) {
        path = fs::canonical(path.parent_path(), error) / path.filename();
        if (error)
            return {};
        if (!fs::is_symlink(path, error))
            return path;
        const fs::path target = fs::read_symlink(path, error);
        if (error)
            return {};
        path = target.is_absolute() ? target : path.parent_path() / target;
    }
    return {};
}

[[noreturn]] void never_comes(const fs::path& path) {
    throw Error(ErrorCode::invalid_argument,
                "there is no file " + path.string() + ", and none of that name comes",
                "what will be there is in data::staged_files()");
}

}  // namespace

std::optional<Stream> Stream::of(const fs::path& path) {
    const char* const streams = std::getenv(env::kStreams);
    if (streams == nullptr || *streams != '/')
        return std::nullopt;
    const fs::path all = fs::path(streams).lexically_normal();
    const fs::path below = absolute_path(path).lexically_normal().lexically_relative(all);
    auto name = below.begin();
    if (name == below.end() || *name == ".." || *name == ".")
        return std::nullopt;
    const fs::path folder = all / *name;
    if (++name == below.end() || *name != kStreamTree)
        return std::nullopt;
    const auto text = text_of_file(folder / kStreamListing, kMostStreamListing);
    if (!text)
        return std::nullopt;
    Stream stream;
    stream.root_ = all;
    stream.tree_ = folder / kStreamTree;
    stream.listing_ = parse_stream_listing(*text);
    for (const StreamListing::File& file : stream.listing_.files)
        stream.bytes_[file.path] = file.bytes;
    return stream;
}

std::optional<std::uint64_t> Stream::bytes_of(const fs::path& path) const {
    std::error_code error;
    const fs::path root = fs::canonical(tree_, error), file = resolved(absolute_path(path));
    if (error || file.empty())
        return std::nullopt;
    const auto found = bytes_.find(file.lexically_relative(root).string());
    return found == bytes_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<StreamFailure> Stream::failure() const {
    const auto text = text_of_file(root_ / kStreamFailed, kMostStreamFailure);
    return text ? parse_stream_failure(*text) : std::nullopt;
}

// A look costs a microsecond of the local disk's memory; a watch of the kernel's would have to be
// made for each folder.
double await_file(const fs::path& path, std::chrono::milliseconds patience,
                  const std::atomic<bool>& stop) {
    if (path_exists(path))
        return 0;
    const auto began = std::chrono::steady_clock::now();
    const auto stream = Stream::of(path);
    if (!stream || !stream->bytes_of(path)) {
        if (path_exists(path))
            return 0;
        never_comes(path);
    }
    const Deadline deadline = Deadline::after(patience);
    for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
        const auto failure = stream->failure();
        if (path_exists(path))
            break;
        if (failure)
            throw Error(ErrorCode::closed, path.string() + " does not come: " + failure->what,
                        failure->hint);
        if (stop)
            throw Error(ErrorCode::aborted, "nobody waits for " + path.string() + " any more");
        if (deadline.passed())
            throw TimeoutError(
                path.string() + " was not there after " +
                    std::to_string(static_cast<double>(patience.count()) / 1000) + " s",
                "it is still being staged: wait longer, or write start: all into the spec");
        std::this_thread::sleep_for(
            std::min<std::chrono::steady_clock::duration>(pause, deadline.remaining()));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace autolaunch::data
