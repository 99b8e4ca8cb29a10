#include "run_report/run_reader.hpp"

#include "base/file_system.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "run_report/gpu_time_reader.hpp"
#include "run_report/open_regular.hpp"
#include "run_report/record_builder.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = 1U << 18;
constexpr std::size_t kLongestLine = 4U << 20;  // a failure of thousands of ranks fits
constexpr std::size_t kMostFileBytes = 64U << 20;
constexpr std::size_t kMostNodeFiles = 10'000;
constexpr char kEvents[] = "events.jsonl";

/// "plan.node-3.json" of "plan" and ".json": by node rank, from 1 up.
std::vector<std::pair<long long, std::string>> node_files(const fs::path& run_dir,
                                                          const std::string& beginning,
                                                          const std::string& ending) {
    std::vector<std::pair<long long, std::string>> found;
    std::error_code ignored;
    const std::string prefix = beginning + ".node-";
    for (const fs::path& path : list_folder(run_dir, ignored)) {
        std::string name = path.filename().string();
        long long node = 0;
        if (name.size() > prefix.size() + ending.size() && name.starts_with(prefix) &&
            name.ends_with(ending) &&
            parse_integer(name.substr(prefix.size(), name.size() - prefix.size() - ending.size()),
                          node) &&
            found.size() < kMostNodeFiles)
            found.emplace_back(node, std::move(name));
    }
    std::sort(found.begin(), found.end());
    return found;
}

// As much as there was when it was opened: a job that goes on may write as fast as we read.
template <class Take>
void read_lines(int file, const std::string& name, RecordBuilder& builder, const Take& take) {
    struct stat facts {};
    ::fstat(file, &facts);
    std::int64_t left = facts.st_size;
    std::vector<char> chunk(kChunkBytes);
    std::string rest;
    bool too_long = false;
    while (left > 0) {
        const auto most = std::min<std::int64_t>(left, static_cast<std::int64_t>(chunk.size()));
        const ssize_t got = ::read(file, chunk.data(), static_cast<std::size_t>(most));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            if (got < 0)
                builder.gap(name + " cannot be read to its end: " + std::strerror(errno));
            break;
        }
        left -= got;
        std::string_view text(chunk.data(), static_cast<std::size_t>(got));
        for (std::size_t end = 0; (end = text.find('\n')) != text.npos;
             text.remove_prefix(end + 1)) {
            if (too_long) {
                builder.gap(fmt::format("{} has a line of more than {} MiB: passed over", name,
                                        kLongestLine >> 20U));
            } else if (rest.empty()) {
                take(text.substr(0, end));
            } else {
                rest += text.substr(0, end);
                take(rest);
            }
            rest.clear();
            too_long = false;
        }
        too_long = too_long || rest.size() + text.size() > kLongestLine;
        if (!too_long)
            rest += text;
    }
    if (!rest.empty() || too_long)
        builder.torn_line(name, rest);
}

// What happened to the ranks of the other nodes; the job's own story is the head's.
void read_other_nodes(const fs::path& run_dir, int folder, RecordBuilder& builder) {
    for (const auto& [node, name] : node_files(run_dir, "events", ".jsonl")) {
        const Opened opened = open_regular(folder, name);
        if (!opened.file) {
            builder.gap(name + " " + opened.wrong);
            continue;
        }
        builder.begin_node(static_cast<int>(node), name);
        read_lines(opened.file.get(), name, builder,
                   [&](std::string_view line) { builder.node_line(line); });
    }
}

std::optional<std::string> read_small(int folder, const std::string& name, RecordBuilder& builder,
                                      bool expected) {
    const Opened opened = open_regular(folder, name);
    if (!opened.file) {
        if (expected || !opened.absent)
            builder.gap(name + " " + opened.wrong);
        return std::nullopt;
    }
    std::string wrong;
    auto text = read_all(opened.file.get(), kMostFileBytes, wrong);
    if (!text)
        builder.gap(name + " " + wrong);
    return text;
}

std::vector<std::string> files_of_all_nodes(const fs::path& run_dir, const std::string& beginning) {
    std::vector<std::string> names{beginning + ".json"};
    for (auto& [node, name] : node_files(run_dir, beginning, ".json"))
        names.push_back(std::move(name));
    return names;
}

[[noreturn]] void refuse_folder(const fs::path& run_dir, const std::string& why) {
    throw SystemError(ENOENT, "find a run in " + run_dir.string() + ": " + why,
                      "name a run directory, such as runs/latest: it has an events.jsonl");
}

}  // namespace

RunRecord read_run(const fs::path& run_dir, const RunReading& reading) {
    const UniqueFd folder(::open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder)
        throw SystemError(errno, "open the run directory " + run_dir.string(),
                          "name the folder that autolaunch printed at the job's start");
    const Opened events = open_regular(folder.get(), kEvents);
    if (!events.file)
        refuse_folder(run_dir, std::string(kEvents) + " " + events.wrong);
    RecordBuilder builder(run_dir.string(), reading.secrets);
    struct stat facts {};
    if (::fstat(folder.get(), &facts) == 0 && facts.st_uid != ::geteuid() && facts.st_uid != 0)
        builder.gap(fmt::format("the folder is of another user (uid {}): what it says is his word",
                                facts.st_uid));
    read_lines(events.file.get(), kEvents, builder,
               [&](std::string_view line) { builder.line(line); });
    read_other_nodes(run_dir, folder.get(), builder);
    for (const std::string& name : files_of_all_nodes(run_dir, "plan"))
        if (const auto text = read_small(folder.get(), name, builder, true))
            builder.plan(name, *text);
    for (const std::string& name : files_of_all_nodes(run_dir, "exit"))
        if (const auto text = read_small(folder.get(), name, builder, false))
            builder.certificate(name, *text);
    RunRecord record = builder.take();
    read_gpu_time(folder.get(), reading, record);
    return record;
}

}  // namespace autolaunch::launcher
