#include "data/data_set.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "data/token_header.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

namespace autolaunch::data {

namespace fs = std::filesystem;

namespace {

constexpr char kWildcards[] = "*?[";

/// Paths of files with their names, and the names of what is none of the data.
struct Found {
    std::vector<TokenShard> files;
    std::vector<std::string> passed_over;
};

std::vector<std::string> paths_that_match(const std::string& pattern) {
    glob_t found = {};
    const int error = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
    const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&found, ::globfree);
    if (error != 0 && error != GLOB_NOMATCH)
        throw SystemError(error == GLOB_NOSPACE ? ENOMEM : errno, "list " + pattern);
    return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

// Names are what follows the last folder before the first wildcard: a data set stays what it is
// where its folder is another one.
Found files_of_pattern(const std::string& pattern) {
    const std::size_t wildcard = pattern.find_first_of(kWildcards);
    const std::size_t slash = pattern.rfind('/', wildcard);
    const std::size_t before = slash == pattern.npos ? 0 : slash + 1;
    Found found;
    for (const std::string& path : paths_that_match(pattern)) {
        if (is_file(path))
            found.files.push_back({path.substr(before), path});
        else
            found.passed_over.push_back(path.substr(before));
    }
    return found;
}

// A folder of shards to train on and of others to validate with is no data set.
void refuse_two_sets(const Found& found, const std::string& folder) {
    const auto has = [&](std::string_view word) {
        return std::any_of(found.files.begin(), found.files.end(), [&](const TokenShard& file) {
            return file.name.find(word) != file.name.npos;
        });
    };
    if (has("_train") && has("_val"))
        throw Error(ErrorCode::invalid_argument,
                    folder + " has files to train on and files to validate with (_train, _val)",
                    "say which with a pattern: " + folder + "/*_train*");
}

Found files_of_folder(const std::string& folder) {
    Found files, others;
    for (const fs::path& path : list_folder(folder)) {
        const std::string name = path.filename();
        if (name.starts_with('.') || !is_file(path))
            others.passed_over.push_back(name);
        else
            (name.ends_with(".bin") ? files : others).files.push_back({name, path});
    }
    if (files.files.empty())
        return others;
    refuse_two_sets(files, folder);
    files.passed_over = std::move(others.passed_over);
    for (const TokenShard& other : others.files)
        files.passed_over.push_back(other.name);
    return files;
}

Found find_files(const std::string& data) {
    if (data.empty())
        throw Error(ErrorCode::invalid_argument, "no data is named",
                    "TokenReaderOptions::data is a file, a folder or a pattern");
    if (is_folder(data))
        return files_of_folder(data);
    if (path_exists(data))
        return {{{fs::path(data).filename(), data}}, {}};
    if (data.find_first_of(kWildcards) == data.npos)
        throw Error(ErrorCode::invalid_argument, "there is no data at " + data,
                    "it is a file, a folder or a pattern such as /data/train_*.bin");
    return files_of_pattern(data);
}

std::string beginning_of(int fd, const fs::path& path) {
    std::string bytes(kBeginningBytes, '\0');
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t got =
            ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw SystemError(errno, "read " + path.string());
        if (got == 0)
            break;
        done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return bytes;
}

void look_into(TokenShard& shard, Format format, DataSet& set) {
    // Not blocking: a FIFO in the place of a file must not hang the reader.
    const UniqueFd fd = open_file(shard.path, O_RDONLY | O_NONBLOCK);
    struct stat facts = {};
    if (::fstat(fd.get(), &facts) != 0)
        throw SystemError(errno, "look at " + shard.path.string());
    if (!S_ISREG(facts.st_mode))
        throw Error(ErrorCode::invalid_argument, shard.path.string() + " is not a regular file");
    shard.bytes = static_cast<std::uint64_t>(facts.st_size);
    const std::string beginning = beginning_of(fd.get(), shard.path);
    const TokenHeader header =
        parse_token_header(beginning, shard.bytes, shard.path.string(), format);
    shard.tokens = header.tokens;
    if (set.beginnings.empty()) {
        set.type = header.type;
        set.header_bytes = header.bytes;
    } else if (set.type != header.type) {
        throw Error(ErrorCode::mismatch,
                    shard.path.string() + " has tokens of " + width_of(header.type) + ", and " +
                        set.shards.front().path.string() + " of " + width_of(set.type),
                    "a data set is of one kind: name its files with a pattern");
    }
    set.beginnings.push_back(hash64(beginning.data(), beginning.size()));
}

}  // namespace

DataSet open_data_set(const std::string& data, Format format) {
    Found found = find_files(data);
    if (found.files.empty())
        throw Error(ErrorCode::invalid_argument, "there are no files of tokens at " + data);
    DataSet set;
    set.shards = std::move(found.files);
    set.passed_over = std::move(found.passed_over);
    std::sort(set.shards.begin(), set.shards.end(),
              [](const TokenShard& a, const TokenShard& b) { return a.name < b.name; });
    for (TokenShard& shard : set.shards)
        look_into(shard, format, set);
    return set;
}

Digest128 DataSet::digest() const { return digest_of(shards, beginnings); }

Digest128 digest_of(const std::vector<TokenShard>& shards,
                    const std::vector<std::uint64_t>& beginnings) {
    RunningHash hash;
    for (std::size_t i = 0; i < shards.size(); ++i) {
        // A name has no NUL.
        const std::string line = shards[i].name + '\0' + std::to_string(shards[i].bytes) + ' ' +
                                 hex64(beginnings[i]) + '\n';
        hash.update(line.data(), line.size());
    }
    return hash.take();
}

}  // namespace autolaunch::data
