#include "placement_watch/process_placement.hpp"

#include "base/affinity.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr int kMostNodes = 1 << 16;
constexpr std::size_t kPieceBytes = std::size_t{16} << 10;

std::vector<pid_t> thread_ids(const std::string& folder) {
    std::vector<pid_t> ids;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()),
                                                        [](DIR* d) { return ::closedir(d); });
    if (!directory)
        return ids;
    while (const dirent* entry = ::readdir(directory.get())) {
        long long id = 0;
        if (parse_integer(entry->d_name, id) && id > 0)
            ids.push_back(static_cast<pid_t>(id));
    }
    std::sort(ids.begin(),
              ids.end());  // the leader has the process's number, the lowest but after a wrap
    return ids;
}

std::string name_of(const std::string& thread_folder) {
    try {
        return std::string(trim(read_file(thread_folder + "/comm")));
    } catch (const Error&) {
        return {};  // it has just ended
    }
}

/// "N12=345": node and pages.
bool parse_node_pages(std::string_view word, int& node, std::uint64_t& pages) {
    const auto equals = word.find('=');
    if (word.size() < 4 || word.front() != 'N' || equals == std::string_view::npos)
        return false;
    long long number = 0, count = 0;
    if (!parse_integer(word.substr(1, equals - 1), number) ||
        !parse_integer(word.substr(equals + 1), count))
        return false;
    if (number < 0 || number >= kMostNodes || count < 0)
        return false;
    node = static_cast<int>(number);
    pages = static_cast<std::uint64_t>(count);
    return true;
}

}  // namespace

std::vector<ThreadPlacement> threads_of(pid_t process, const std::string& proc_root) {
    const std::string folder = proc_root + "/" + std::to_string(process) + "/task";
    std::vector<ThreadPlacement> threads;
    for (const pid_t id : thread_ids(folder))
        if (auto cpus = affinity_of(id))
            threads.push_back({id, name_of(folder + "/" + std::to_string(id)), std::move(*cpus)});
    return threads;
}

// 7f2c40000000 prefer:0 anon=8192 dirty=8192 N0=8000 N1=192 kernelpagesize_kB=4
void add_numa_maps_line(std::string_view line, MemoryPlacement& bytes) {
    bool is_own = false, is_file = false;
    std::uint64_t page_bytes = 4096;
    MemoryPlacement pages;
    for (const std::string& word : split(line, ' ')) {
        int node = 0;
        std::uint64_t count = 0;
        long long kib = 0;
        if (word.starts_with("anon=")) {
            is_own = true;
        } else if (word.starts_with("file=")) {
            is_file = true;
        } else if (parse_node_pages(word, node, count)) {
            pages[node] += count;
        } else if (word.starts_with("kernelpagesize_kB=") &&
                   parse_integer(std::string_view(word).substr(18), kib) && kib > 0) {
            page_bytes = static_cast<std::uint64_t>(kib) << 10;
        }
    }
    if (!is_own || is_file)
        return;
    for (const auto& [node, count] : pages)
        bytes[node] += count * page_bytes;
}

NumaMapsReader::NumaMapsReader(pid_t process, const std::string& proc_root) {
    const std::string path = proc_root + "/" + std::to_string(process) + "/numa_maps";
    file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

bool NumaMapsReader::read_some() {
    if (!file_)
        return true;
    std::array<char, kPieceBytes> piece;
    const ssize_t got = ::read(file_.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR)
        return false;
    if (got <= 0) {
        file_.reset();
        return true;
    }
    rest_.append(piece.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
        add_numa_maps_line(std::string_view(rest_).substr(begin, end - begin), bytes_);
    rest_.erase(0, begin);
    return false;
}

}  // namespace autolaunch::launcher
