#include "hand_over/shared_file.hpp"

#include "base/json_nesting.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kSmall = std::int64_t{1} << 20;  // reading all of it is one request
constexpr int kFewestNodes = 4;  // a copy also serves the jobs after this one
// It comes before the imports, where each node's own reading goes on beside them, and takes room
// and the nodes' network.
constexpr std::int64_t kGain = 2;
constexpr std::size_t kLooks = 16;
constexpr int kDeepestList = 3;
constexpr std::int64_t kBillion = 1'000'000'000;

}  // namespace

std::size_t chunks_of(const SharedFile& file) {
    return (static_cast<std::size_t>(file.bytes) + kChunkBytes - 1) / kChunkBytes;
}

std::size_t chunk_bytes(const SharedFile& file, std::size_t chunk) {
    return std::min(kChunkBytes, static_cast<std::size_t>(file.bytes) - chunk * kChunkBytes);
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
    for (const SharedFile& file : files)
        json.push_back({file.path, file.bytes, file.mtime_ns, file.mode});
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<SharedFile> parse_manifest(const std::string& text) {
    std::vector<SharedFile> files;
    if (!nests_at_most(text, kDeepestList))
        throw Error(ErrorCode::corrupt, "a list of files that is none");
    try {
        for (const auto& file : nlohmann::json::parse(text)) {
            files.push_back({file.at(0).get<std::string>(), file.at(1).get<std::int64_t>(),
                             file.at(2).get<std::int64_t>(), file.at(3).get<unsigned>() & 0777});
            if (!files.back().path.starts_with('/') || files.back().bytes <= 0)
                throw Error(ErrorCode::corrupt, "a list of files names one that is none");
        }
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorCode::corrupt,
                    std::string("a list of files that is none: ") + error.what());
    }
    return files;
}

}  // namespace autolaunch::launcher
