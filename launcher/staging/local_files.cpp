#include "staging/local_files.hpp"

#include "exit_codes/exit_error.hpp"
#include "stage_cache/tree_copy.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

class LocalReader final : public RemoteReader {
public:
    explicit LocalReader(const SourceTree& source) : source_(source) {}

    void read(const TreeEntry& file, std::int64_t at, std::span<std::byte> into) override {
        if (!file_ || path_ != file.path) {
            file_ = source_.open(file);
            path_ = file.path;
            check_unchanged(file_.get(), file, source_.path_of(file));
        }
        while (!into.empty()) {
            const ssize_t some = ::pread(file_.get(), into.data(), into.size(), at);
            if (some < 0 && errno == EINTR)
                continue;
            if (some < 0)
                throw ExitError(exit_code::kNoInput, ErrorCode::system,
                                SystemError(errno, "read " + source_.path_of(file)).what(),
                                "the file system that it is on has to answer");
            if (some == 0)
                was_changed(source_.path_of(file));
            into = into.subspan(static_cast<std::size_t>(some));
            at += some;
        }
    }

    void read_all(const TreeEntry& file, const Take& take) override {
        std::vector<std::byte> bytes(ChunkedDigest::kChunk);
        for (std::int64_t at = 0; at < file.bytes;) {
            const auto count =
                std::min<std::int64_t>(file.bytes - at, static_cast<std::int64_t>(bytes.size()));
            const auto part = std::span(bytes).first(static_cast<std::size_t>(count));
            read(file, at, part);
            take(at, part);
            at += count;
        }
    }

private:
    const SourceTree& source_;
    UniqueFd file_;
    std::string path_;
};

class LocalFiles final : public RemoteSource {
public:
    explicit LocalFiles(const SourceTree& source) : source_(source) {}
    Tree look() override { return source_.tree; }
    std::unique_ptr<RemoteReader> connect() const override {
        return std::make_unique<LocalReader>(source_);
    }

private:
    const SourceTree& source_;
};

}  // namespace

std::unique_ptr<RemoteSource> local_files(const SourceTree& source) {
    return std::make_unique<LocalFiles>(source);
}

}  // namespace autolaunch::launcher
