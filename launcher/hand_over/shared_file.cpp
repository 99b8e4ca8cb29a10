#include "hand_over/shared_file.hpp"

#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kSmall = std::int64_t{1} << 20;  // reading all of it is one request
constexpr int kFewestNodes = 4;  // a copy also serves the jobs after this one
// It comes before the imports, where each node's own reading goes on beside them, and takes room
// and the nodes' network.
constexpr std::int64_t kGain = 2;
constexpr std::size_t kLooks = 16;
constexpr int kDeepestList = 4;
constexpr std::int64_t kBillion = 1'000'000'000;
constexpr std::int64_t kLargestFile = std::int64_t{1} << 42;  // what a list of chunks has room for
constexpr std::uint32_t kGapPieces = 1;
constexpr std::size_t kMostOf = 8;  // of which 7 are used

std::size_t unit_of(const SharedFile& file) {
    return file.is_in_pieces() ? kPieceBytes : kChunkBytes;
}

std::vector<PieceRun> parse_pieces(const nlohmann::json& json, std::size_t chunks) {
    std::vector<PieceRun> pieces;
    std::size_t end = 0;
    for (const auto& run : json) {
        pieces.push_back(
            {whole_number<std::uint32_t>(run.at(0)), whole_number<std::uint32_t>(run.at(1))});
        const std::size_t first = pieces.back().first, count = pieces.back().count;
        if (first < end || count == 0 || first + count > chunks)
            throw Error(ErrorCode::corrupt, "a list of files names pieces that are none");
        end = first + count;
    }
    return pieces;
}

}  // namespace

std::size_t chunks_of(const SharedFile& file) {
    return (static_cast<std::size_t>(file.bytes) + unit_of(file) - 1) / unit_of(file);
}

std::int64_t chunk_offset(const SharedFile& file, std::size_t chunk) {
    return static_cast<std::int64_t>(chunk * unit_of(file));
}

std::size_t chunk_bytes(const SharedFile& file, std::size_t chunk) {
    return std::min(unit_of(file),
                    static_cast<std::size_t>(file.bytes - chunk_offset(file, chunk)));
}

std::vector<std::size_t> wanted_chunks(const SharedFile& file) {
    std::vector<std::size_t> wanted;
    const std::vector<PieceRun> all{{0, static_cast<std::uint32_t>(chunks_of(file))}};
    for (const PieceRun& run : file.is_in_pieces() ? file.pieces : all)
        for (std::size_t chunk = run.first; chunk < std::size_t{run.first} + run.count; ++chunk)
            wanted.push_back(chunk);
    return wanted;
}

std::int64_t wanted_bytes(const SharedFile& file) {
    if (!file.is_in_pieces())
        return file.bytes;
    std::int64_t bytes = 0;
    for (const std::size_t chunk : wanted_chunks(file))
        bytes += static_cast<std::int64_t>(chunk_bytes(file, chunk));
    return bytes;
}

std::vector<PieceRun> pieces_of(const std::vector<FileUse::Part>& parts, std::int64_t bytes) {
    if (bytes <= kSmall)
        return {};
    constexpr auto kUnit = static_cast<std::int64_t>(kPieceBytes);
    std::vector<bool> used(static_cast<std::size_t>((bytes + kUnit - 1) / kUnit));
    for (const FileUse::Part& part : parts) {
        const std::int64_t end = std::min(part.offset + part.bytes, bytes);
        for (std::int64_t at = std::max<std::int64_t>(part.offset, 0); at < end;
             at = (at / kUnit + 1) * kUnit)
            used[static_cast<std::size_t>(at / kUnit)] = true;
    }
    std::vector<PieceRun> runs;
    std::size_t sum = 0;
    for (std::uint32_t at = 0; at < used.size(); ++at) {
        if (!used[at])
            continue;
        if (!runs.empty() && at - (runs.back().first + runs.back().count) <= kGapPieces)
            runs.back().count = at + 1 - runs.back().first;
        else
            runs.push_back({at, 1});
    }
    for (const PieceRun& run : runs)
        sum += run.count;
    return sum * kMostOf >= used.size() * (kMostOf - 1) ? std::vector<PieceRun>{} : runs;
}

std::int64_t used_bytes(const std::vector<FileUse::Part>& parts) {
    std::vector<FileUse::Part> sorted = parts;
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    std::int64_t sum = 0, end = 0;
    for (const FileUse::Part& part : sorted) {
        sum += std::max<std::int64_t>(part.offset + part.bytes - std::max(end, part.offset), 0);
        end = std::max(end, part.offset + part.bytes);
    }
    return sum;
}

bool is_worth_it(std::int64_t bytes, std::int64_t used_bytes, int nodes) {
    return bytes > 0 &&
           (bytes <= kSmall || bytes * kGain <= used_bytes * std::max(nodes, kFewestNodes));
}

std::optional<SharedFile> look_at(const std::string& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode))
        return std::nullopt;
    return SharedFile{path, facts.st_size, facts.st_mtim.tv_sec * kBillion + facts.st_mtim.tv_nsec,
                      facts.st_mode & 0777};
}

bool is_unchanged(const SharedFile& file) {
    const auto now = look_at(file.path);
    return now && now->bytes == file.bytes && now->mtime_ns == file.mtime_ns &&
           now->mode == file.mode;
}

std::vector<std::optional<SharedFile>> look_at_all(const std::vector<std::string>& paths) {
    std::vector<std::optional<SharedFile>> seen(paths.size());
    std::atomic<std::size_t> next = 0;
    const auto look = [&] {
        for (std::size_t at = next++; at < paths.size(); at = next++)
            seen[at] = look_at(paths[at]);
    };
    std::vector<std::jthread> lookers;
    for (std::size_t i = 0; i < std::min(kLooks, paths.size()); ++i)
        lookers.emplace_back(look);
    lookers.clear();  // joins them
    return seen;
}

std::vector<int> places_above(int place) {
    std::vector<int> above;
    while (place > 0)
        above.push_back(place = (place - 1) / 2);
    return above;
}

std::string as_manifest(const std::vector<SharedFile>& files) {
    nlohmann::json json = nlohmann::json::array();
    for (const SharedFile& file : files) {
        json.push_back({file.path, file.bytes, file.mtime_ns, file.mode});
        for (const PieceRun& run : file.pieces)
            json.back()[4].push_back({run.first, run.count});
    }
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<SharedFile> parse_manifest(const std::string& text) {
    std::vector<SharedFile> files;
    if (!nests_at_most(text, kDeepestList))
        throw Error(ErrorCode::corrupt, "a list of files that is none");
    try {
        for (const auto& file : nlohmann::json::parse(text)) {
            files.push_back({file.at(0).get<std::string>(), whole_number<std::int64_t>(file.at(1)),
                             whole_number<std::int64_t>(file.at(2)),
                             whole_number<unsigned>(file.at(3)) & 0777});
            SharedFile& last = files.back();
            if (!last.path.starts_with('/') || last.bytes <= 0 || last.bytes > kLargestFile)
                throw Error(ErrorCode::corrupt, "a list of files names one that is none");
            if (file.size() > 4)
                last.pieces = parse_pieces(
                    file.at(4),
                    (static_cast<std::size_t>(last.bytes) + kPieceBytes - 1) / kPieceBytes);
        }
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorCode::corrupt,
                    std::string("a list of files that is none: ") + error.what());
    }
    return files;
}

}  // namespace autolaunch::launcher
