#include "data/data_set.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "data/stream.hpp"
#include "data/token_header.hpp"

#include <autolaunch/data/staged_files.hpp>
#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

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

/// A file, or one that comes; else what is passed over.
void take_file(const std::string& path, const std::string& name, const Stream* stream,
               std::vector<TokenShard>& files, std::vector<std::string>& passed_over) {
    const auto comes = stream != nullptr && !path_exists(path) ? stream->bytes_of(path)
                                                               : std::optional<std::uint64_t>();
    if (comes)
        files.push_back({name, path, *comes, 0});
    else if (is_file(path))
        files.push_back({name, path});
    else
        passed_over.push_back(name);
}

/// Of files that come those that match; links before the first wildcard are followed.
std::vector<std::string> coming_paths(const Stream& stream, const std::string& pattern,
                                      std::size_t before) {
    const std::string folder = pattern.substr(0, before), names = pattern.substr(before);
    std::error_code error;
    const fs::path root = fs::canonical(stream.tree(), error);
    const fs::path real = fs::canonical(folder.empty() ? "." : folder, error);
    std::vector<std::string> paths;
    for (const StreamListing::File& file : stream.listing().files) {
        const std::string below = (root / file.path).lexically_relative(real);
        if (!error && ::fnmatch(names.c_str(), below.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0)
            paths.push_back(folder + below);
    }
    return paths;
}

// Names are what follows the last folder before the first wildcard: a data set stays what it is
// where its folder is another one.
Found files_of_pattern(const std::string& pattern, const Stream* stream) {
    const std::size_t wildcard = pattern.find_first_of(kWildcards);
    const std::size_t slash = pattern.rfind('/', wildcard);
    const std::size_t before = slash == pattern.npos ? 0 : slash + 1;
    std::set<std::string> paths;
    for (std::string& path : paths_that_match(pattern))
        paths.insert(std::move(path));
    if (stream != nullptr)
        for (std::string& path : coming_paths(*stream, pattern, before))
            paths.insert(std::move(path));
    Found found;
    for (const std::string& path : paths)
        take_file(path, path.substr(before), stream, found.files, found.passed_over);
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

std::set<std::string> names_in(const std::string& folder, const Stream* stream) {
    std::set<std::string> names;
    for (const fs::path& path : list_folder(folder))
        names.insert(path.filename());
    if (stream == nullptr)
        return names;
    std::error_code error;
    const fs::path root = fs::canonical(stream->tree(), error), real = fs::canonical(folder, error);
    for (const StreamListing::File& file : stream->listing().files)
        if ((root / file.path).parent_path() == real)
            names.insert(fs::path(file.path).filename());
    return names;
}

Found files_of_folder(const std::string& folder, const Stream* stream) {
    Found files, others;
    for (const std::string& name : names_in(folder, stream)) {
        if (name.starts_with('.'))
            others.passed_over.push_back(name);
        else
            take_file(fs::path(folder) / name, name, stream,
                      (name.ends_with(".bin") ? files : others).files, others.passed_over);
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
    const std::optional<Stream> comes = Stream::of(data);
    const Stream* const stream = comes ? &*comes : nullptr;
    if (is_folder(data))
        return files_of_folder(data, stream);
    if (path_exists(data))
        return {{{fs::path(data).filename(), data}}, {}};
    if (stream != nullptr && stream->bytes_of(data))
        return {{{fs::path(data).filename(), data, *stream->bytes_of(data), 0}}, {}};
    if (data.find_first_of(kWildcards) == data.npos)
        throw Error(ErrorCode::invalid_argument, "there is no data at " + data,
                    "it is a file, a folder or a pattern such as /data/train_*.bin");
    return files_of_pattern(data, stream);
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

/// Of a file that is not there yet: all are of the first one's kind.
void take_from_listing(TokenShard& shard, const TokenHeader& like) {
    const auto width = static_cast<std::uint64_t>(like.type);
    if (shard.bytes < like.bytes || (shard.bytes - like.bytes) % width != 0)
        throw Error(ErrorCode::corrupt,
                    shard.path.string() + " will have " + std::to_string(shard.bytes) +
                        " bytes, and that is no file of tokens of " + width_of(like.type));
    shard.tokens = static_cast<std::int64_t>((shard.bytes - like.bytes) / width);
}

}  // namespace

LookedInto look_into(TokenShard& shard, Format format) {
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
    return {header, hash64(beginning.data(), beginning.size())};
}

DataSet open_data_set(const std::string& data, Format format, std::chrono::milliseconds patience) {
    Found found = find_files(data);
    if (found.files.empty())
        throw Error(ErrorCode::invalid_argument, "there are no files of tokens at " + data);
    DataSet set;
    set.shards = std::move(found.files);
    set.passed_over = std::move(found.passed_over);
    std::sort(set.shards.begin(), set.shards.end(),
              [](const TokenShard& a, const TokenShard& b) { return a.name < b.name; });
    await_file(set.shards.front().path, patience);
    std::vector<std::optional<LookedInto>> seen(set.shards.size());
    for (std::size_t i = 0; i < set.shards.size(); ++i) {
        TokenShard& shard = set.shards[i];
        if (i > 0 && !path_exists(shard.path)) {
            take_from_listing(shard, seen.front()->header);
            continue;
        }
        seen[i] = look_into(shard, format);
        if (seen[i]->header.type != seen.front()->header.type)
            throw Error(ErrorCode::mismatch,
                        shard.path.string() + " has tokens of " + width_of(seen[i]->header.type) +
                            ", and " + set.shards.front().path.string() + " of " +
                            width_of(seen.front()->header.type),
                        "a data set is of one kind: name its files with a pattern");
    }
    set.type = seen.front()->header.type;
    set.header_bytes = seen.front()->header.bytes;
    set.arrivals = std::make_shared<Arrivals>(set.shards, format, seen.front()->header, patience);
    for (std::size_t i = 0; i < set.shards.size(); ++i)
        if (seen[i])
            set.arrivals->set_beginning(i, seen[i]->beginning);
    return set;
}

Beginnings DataSet::beginnings() const {
    Beginnings all;
    for (std::size_t i = 0; i < shards.size(); ++i)
        all.push_back(arrivals->beginning(i));
    return all;
}

Digest128 DataSet::digest() const {
    const std::atomic<bool> never{false};
    for (std::size_t i = 0; i < shards.size(); ++i)
        arrivals->await(i, never);
    return digest_of(shards, beginnings());
}

Digest128 digest_of(const std::vector<TokenShard>& shards, const Beginnings& beginnings) {
    RunningHash hash;
    for (std::size_t i = 0; i < shards.size(); ++i) {
        // A name has no NUL.
        const std::string line = shards[i].name + '\0' + std::to_string(shards[i].bytes) + ' ' +
                                 (beginnings[i] ? hex64(*beginnings[i]) : std::string()) + '\n';
        hash.update(line.data(), line.size());
    }
    return hash.take();
}

}  // namespace autolaunch::data
