#include "top/run_follower.hpp"

#include "base/text.hpp"
#include "top/step_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLeastChunk = std::size_t{64} << 10, kMostChunk = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{4} << 20;  // a failure of thousands of ranks fits
constexpr std::size_t kPlanBytes = std::size_t{64} << 20;
constexpr std::size_t kEndBytes = std::size_t{64} << 10;     // of a file: its last lines
constexpr std::size_t kSampleBytes = std::size_t{64} << 10;  // more than a node's line
constexpr char kSamples[] = "samples/";
constexpr std::size_t kLogLineBytes = 512;
constexpr int kMostNode = 1'000'000;

}  // namespace

std::optional<int> node_of_file(std::string_view name, std::string_view kind) {
    if (!name.starts_with(kind))
        return std::nullopt;
    name.remove_prefix(kind.size());
    if (name == ".json" || name == ".jsonl")
        return JobModel::kHead;
    constexpr std::string_view kNode = ".node-";
    if (!name.starts_with(kNode))
        return std::nullopt;
    name.remove_prefix(kNode.size());
    long long node = 0;
    return parse_integer(name.substr(0, name.find('.')), node) && node >= 0 && node < kMostNode
               ? std::optional(static_cast<int>(node))
               : std::nullopt;
}

void RunFollower::take_plan(const RunFile& file, int node) {
    RunPlace::FilePlace& place = place_.files[file.name];
    if (place.offset == file.bytes)
        return;
    const bool is_first = place.offset == 0;
    place.offset = file.bytes;
    const RunFilePart part = source_.read(file.name, 0, kPlanBytes);
    if (part.wrong.empty())
        place_.model.take_plan(node, part.bytes);
    else if (is_first)
        place_.model.add_gap(file.name + " " + part.wrong);
}

// The file is thinned now and then, and written anew.
void RunFollower::take_newest_sample(const RunFile& file) {
    RunPlace::FilePlace& place = place_.files[file.name];
    if (place.offset == file.bytes)
        return;
    place.offset = file.bytes;
    const RunFilePart part = source_.read(file.name, kFromEnd, kSampleBytes);
    const std::size_t end = part.bytes.rfind('\n');
    if (end == std::string::npos)
        return;
    const std::size_t before = end == 0 ? std::string::npos : part.bytes.rfind('\n', end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    take_sample(std::string_view(part.bytes).substr(begin, end - begin));
}

void RunFollower::take_newest_samples() {
    for (const RunFile& file : files_)
        if (file.name.starts_with(kSamples))
            take_newest_sample(file);
}

// Plans first: they have the names of nodes.
void RunFollower::look() {
    files_ = source_.list();
    for (const RunFile& file : files_)
        if (const auto node = node_of_file(file.name, "plan"))
            take_plan(file, *node);
}

bool RunFollower::read_on(Reader& reader, std::size_t bytes, std::size_t& budget) {
    RunPlace::FilePlace& place = *reader.place;
    place.rest.erase(0, reader.at);
    reader.at = 0;
    const RunFilePart part = source_.read(reader.file->name, place.offset, bytes);
    if (!part.wrong.empty())
        place_.model.add_gap(reader.file->name + " " + part.wrong);
    place.rest += part.bytes;
    place.offset += part.covered;
    budget -= std::min(budget, std::max<std::size_t>(part.bytes.size(), 1));
    return part.covered > 0;
}

bool RunFollower::find_line(Reader& reader, std::size_t chunk, std::size_t& budget) {
    RunPlace::FilePlace& place = *reader.place;
    for (;;) {
        reader.end = place.rest.find('\n', reader.at);
        if (reader.end == std::string::npos) {
            if (place.rest.size() - reader.at > kLongestLine) {
                place.in_long_line = true;
                reader.at = place.rest.size();
                place_.model.add_gap(fmt::format("{} has a line of more than {} MiB: passed over",
                                                 reader.file->name, kLongestLine >> 20U));
            }
            if (place.offset >= reader.file->bytes || budget == 0 ||
                !read_on(reader, chunk, budget))
                return false;
        } else if (std::exchange(place.in_long_line, false)) {
            reader.at = reader.end + 1;
        } else {
            const auto line =
                std::string_view(place.rest).substr(reader.at, reader.end - reader.at);
            place.time = time_of_line(line).value_or(place.time);
            return true;
        }
    }
}

// One file may speak of what another one began: lines are taken in by their time.
bool RunFollower::advance(std::optional<ViewTime> until, std::size_t most) {
    std::vector<Reader> readers;
    for (const RunFile& file : files_) {
        const auto node = node_of_file(file.name, "events");
        if (!node)
            continue;
        RunPlace::FilePlace& place = place_.files[file.name];
        if (file.bytes < place.offset)
            place_.model.add_gap(file.name +
                                 " has become shorter: what it says now is not taken in");
        else
            readers.push_back({&file, *node, &place});
    }
    const std::size_t chunk =
        std::clamp(most / std::max<std::size_t>(1, readers.size()), kLeastChunk, kMostChunk);
    const auto is_later = [&readers](std::size_t one, std::size_t other) {
        const ViewTime first = readers[one].place->time, second = readers[other].place->time;
        return first != second ? first > second : one > other;
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(is_later)> next(is_later);
    for (std::size_t at = 0; at < readers.size(); ++at)
        if (find_line(readers[at], chunk, most))
            next.push(at);
    bool may_have_more = false;
    while (!next.empty()) {
        Reader& reader = readers[next.top()];
        if (until && reader.place->time > *until)
            break;
        const std::size_t at = next.top();
        next.pop();
        place_.model.take_event(
            reader.node,
            std::string_view(reader.place->rest).substr(reader.at, reader.end - reader.at));
        reader.at = reader.end + 1;
        if (find_line(reader, chunk, most))
            next.push(at);
        else if (most == 0 && reader.place->offset < reader.file->bytes) {
            may_have_more = true;
            break;  // its next lines may be earlier than those of others
        }
    }
    for (Reader& reader : readers)
        reader.place->rest.erase(0, reader.at);
    const bool stopped_short =
        most == 0 && std::any_of(readers.begin(), readers.end(), [](auto& reader) {
            return reader.place->offset < reader.file->bytes;
        });
    return !may_have_more && !(stopped_short && next.empty());
}

RunPlace RunFollower::place() const {
    RunPlace small = place_;
    for (auto& [name, file] : small.files) {
        file.offset -= file.rest.size();
        file.rest = {};
    }
    return small;
}

double RunFollower::share_read() const {
    double all = 0, read = 0;
    for (const RunFile& file : files_)
        if (node_of_file(file.name, "events")) {
            const auto found = place_.files.find(file.name);
            all += static_cast<double>(file.bytes);
            read += found == place_.files.end() ? 0 : static_cast<double>(found->second.offset);
        }
    return all > 0 ? std::min(1.0, read / all) : 1.0;
}

std::optional<std::pair<ViewTime, ViewTime>> span_of_run(RunSource& source) {
    std::optional<std::pair<ViewTime, ViewTime>> span;
    const auto see = [&span](std::string_view lines) {
        for (const std::string& line : split(lines, '\n'))
            if (const auto at = time_of_line(line))
                span = {std::min(span ? span->first : *at, *at),
                        std::max(span ? span->second : *at, *at)};
    };
    for (const RunFile& file : source.list())
        if (node_of_file(file.name, "events")) {
            see(source.read(file.name, 0, kEndBytes).bytes);
            see(source.read(file.name, kFromEnd, kEndBytes).bytes);
        }
    return span;
}

std::vector<std::string> log_tail(RunSource& source, int generation, int rank,
                                  const std::string& stream, std::size_t most_lines) {
    const std::string name = fmt::format("generation-{}/rank-{}/{}", generation, rank, stream);
    const RunFilePart part = source.read(name, kFromEnd, most_lines * kLogLineBytes);
    if (!part.wrong.empty())
        return {name + " " + part.wrong};
    std::vector<std::string> lines = split(part.bytes, '\n');
    if (!lines.empty() && lines.back().empty())
        lines.pop_back();
    if (part.file_bytes > part.bytes.size() && lines.size() > 1)
        lines.erase(lines.begin());  // the end of a line
    if (lines.size() > most_lines)
        lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most_lines));
    // Of a bar that draws itself anew, the newest.
    for (std::string& line : lines) {
        while (!line.empty() && line.back() == '\r')
            line.pop_back();
        if (const std::size_t back = line.rfind('\r'); back != line.npos)
            line.erase(0, back + 1);
    }
    return lines;
}

}  // namespace autolaunch::launcher
