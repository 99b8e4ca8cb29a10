#include "readings/sample_file.hpp"

#include "base/file_io.hpp"
#include "base/read_at_most.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr const char* kFolder = "samples";
constexpr std::size_t kReadLimit = 4 * kSampleFileLimit;

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
        lines.push_back(text.substr(0, end));
    return lines;  // one without its end is being written, or was torn
}

bool is_header(std::string_view line) { return line.starts_with("{\"format\":"); }

// What this writer writes begins with its time.
std::int64_t time_of(std::string_view line) {
    constexpr std::string_view kBegin = "{\"t\":";
    std::int64_t time = 0;
    if (line.starts_with(kBegin))
        std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), time);
    return time;
}

struct Kept {
    std::vector<char> lines;  ///< by line: whether it stays
    std::size_t bytes = 0;
};

// Two that stay are a `parts`th of their age apart, or as they were. The clock may have been set
// back: what is younger than the newest then has no age.
Kept keep(const std::vector<std::string_view>& lines, double parts) {
    Kept kept{std::vector<char>(lines.size(), 0)};
    std::int64_t newest = 0;
    for (std::size_t at = lines.size(); at-- > 0 && newest <= 0;)
        newest = time_of(lines[at]);
    std::int64_t last_age = -1;
    std::size_t oldest = lines.size();
    for (std::size_t at = lines.size(); at-- > 0;) {
        const std::int64_t time = time_of(lines[at]);
        if (time <= 0)
            continue;
        oldest = at;
        const std::int64_t age = std::max<std::int64_t>(newest - time, 0);
        const bool is_far = static_cast<double>(age - last_age) * parts >= static_cast<double>(age);
        if (!is_far)
            continue;
        last_age = age;
        kept.lines[at] = 1;
        kept.bytes += lines[at].size() + 1;
    }
    if (oldest < lines.size() && !std::exchange(kept.lines[oldest], 1))
        kept.bytes += lines[oldest].size() + 1;
    return kept;
}

std::string text_of(const std::vector<std::string_view>& lines, const std::vector<char>& kept) {
    std::string text;
    std::string_view header;
    for (std::size_t at = 0; at < lines.size(); ++at) {
        if (is_header(lines[at]))
            header = lines[at];
        if (!kept[at])
            continue;
        if (!header.empty())
            text.append(std::exchange(header, {})) += '\n';
        text.append(lines[at]) += '\n';
    }
    return header.empty() ? text : text.append(header) + '\n';
}

}  // namespace

std::string thin_samples(std::string_view text, std::size_t limit) {
    const auto lines = lines_of(text);
    constexpr double kFewer = 0.8;
    std::string thinned;
    for (double parts = static_cast<double>(lines.size()); parts > 1; parts *= kFewer) {
        const Kept kept = keep(lines, parts);
        if (kept.bytes <= limit && (thinned = text_of(lines, kept.lines)).size() <= limit)
            return thinned;
    }
    // A clock that was set back, so that there are no ages: the newest.
    std::size_t bytes = 0, first = lines.size();
    while (first > 0 && bytes + lines[first - 1].size() + 1 <= limit)
        bytes += lines[--first].size() + 1;
    thinned.clear();
    for (; first < lines.size(); ++first)
        thinned.append(lines[first]) += '\n';
    return thinned;
}

SampleFile::SampleFile(const std::filesystem::path& run_dir, std::string_view node,
                       std::size_t limit)
    : folder_(OwnedFolder::make(run_dir / kFolder)),
      name_(sample_file_name(node)),
      limit_(limit),
      fd_(folder_.append(name_)) {
    struct stat facts {};
    if (::fstat(fd_.get(), &facts) == 0)
        bytes_ = static_cast<std::size_t>(facts.st_size);
    if (bytes_ == 0)
        return;
    // Of a sampler that was killed while it wrote.
    const auto text = folder_.read(name_, kReadLimit);
    if (text && !text->ends_with('\n'))
        append("\n");
}

void SampleFile::append(const std::string& line) {
    if (bytes_ > 0 && bytes_ + line.size() > limit_)
        make_room();
    try {
        write_all(fd_.get(), line, name_);
    } catch (const SystemError&) {
        [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(bytes_));
        throw;
    }
    bytes_ += line.size();
}

void SampleFile::make_room() {
    const std::string kept =
        thin_samples(folder_.read(name_, kReadLimit).value_or(""), limit_ / 4 * 3);
    folder_.replace(name_, kept);
    fd_ = folder_.append(name_);
    bytes_ = kept.size();
}

SampleHistory parse_samples(std::string_view text) {
    SampleHistory history;
    history.header.format = 0;
    for (const std::string_view line : lines_of(text)) {
        SampleLine parsed = parse_sample_line(line);
        if (auto* sample = std::get_if<NodeSample>(&parsed))
            history.samples.push_back(std::move(*sample));
        else if (auto* header = std::get_if<SampleHeader>(&parsed))
            history.header = std::move(*header);
        else if (!line.empty())
            ++history.damaged;
    }
    return history;
}

SampleHistory read_sample_file(const std::filesystem::path& path) {
    return parse_samples(read_regular_file(path, kReadLimit));
}

}  // namespace autolaunch::launcher
