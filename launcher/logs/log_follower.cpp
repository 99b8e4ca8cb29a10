#include "logs/log_follower.hpp"

#include "base/file_io.hpp"
#include "report/units.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::array kStreams = {OutputStream::out, OutputStream::err};

std::size_t index_of(OutputStream stream) { return stream == OutputStream::out ? 0 : 1; }

bool has(StdStreams streams, OutputStream stream) {
    const auto wanted = stream == OutputStream::out ? StdStreams::out : StdStreams::err;
    return (static_cast<unsigned>(streams) & static_cast<unsigned>(wanted)) != 0;
}

}  // namespace

LogFollower::LogFollower(LoggingSpec options, std::string hostname, Charset charset)
    : options_(std::move(options)),
      hostname_(std::move(hostname)),
      mark_(std::string(ellipsis(charset)) + ' '),
      buffer_(kReadBytes) {
    // A folded line without its ranks would hide who printed it.
    options_.fold = options_.fold && options_.prefix && options_.prefix_template.empty();
}

bool LogFollower::shows(int local_rank, OutputStream stream) const {
    const auto& filter = options_.local_ranks_filter;
    if (!filter.empty() && std::find(filter.begin(), filter.end(), local_rank) == filter.end())
        return false;
    const auto own = options_.console_by_local_rank.find(local_rank);
    return has(own == options_.console_by_local_rank.end() ? options_.console_default : own->second,
               stream);
}

void LogFollower::add_rank(int rank, int local_rank, const RankFiles& files, std::string prefix) {
    if (options_.prefix && !prefix.empty())
        prefixes_[rank] = std::move(prefix);
    if (shows(local_rank, OutputStream::out))
        add_file(rank, OutputStream::out, files.stdout_path, files.stdout_start);
    if (shows(local_rank, OutputStream::err))
        add_file(rank, OutputStream::err, files.stderr_path, files.stderr_start);
}

void LogFollower::add_file(int rank, OutputStream stream, const std::filesystem::path& path,
                           std::int64_t start) {
    files_.push_back({rank, stream, path.string(), open_file(path, O_RDONLY), start});
    folders_[index_of(stream)].add_rank(rank);
}

std::optional<std::int64_t> LogFollower::read_to(int rank, OutputStream stream) const {
    for (const auto& file : files_)
        if (file.rank == rank && file.stream == stream)
            return file.offset;
    return std::nullopt;
}

void LogFollower::rank_ended(int rank) {
    for (auto& file : files_)
        if (file.rank == rank)
            file.rank_ended = true;
    for (auto& folder : folders_)
        folder.rank_ended(rank);
}

bool LogFollower::follow(LineSink& sink, Clock::time_point now) {
    const Deadline slice = Deadline::after(kTimeSlice);
    for (;;) {
        const bool more = read_round(sink, now);
        give_queued(sink, now);
        if (more && !slice.passed())
            continue;
        show_live(sink);
        return more;
    }
}

// Alike lines of several ranks are one here, too.
void LogFollower::show_live(LineSink& sink) const {
    std::vector<FoldedLine> lines;
    for (const File& file : files_) {
        if (!options_.prefix || !sink.shows_live(file.stream))
            continue;
        for (std::string& state : file.splitter.live()) {
            const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& line) {
                return options_.fold && line.text == state && line.ranks.back() != file.rank;
            });
            if (same != lines.end())
                same->ranks.push_back(file.rank);
            else
                lines.push_back({{file.rank}, std::move(state)});
        }
    }
    std::vector<LiveLine> live;
    for (FoldedLine& line : lines) {
        std::sort(line.ranks.begin(), line.ranks.end());
        live.push_back({fold_prefix(line.ranks, hostname_), std::move(line.text)});
    }
    sink.set_live(std::move(live));
}

// One read of each file whose stream can be written, beginning with another file each time. True
// when a file has more.
bool LogFollower::read_round(LineSink& sink, Clock::time_point now) {
    bool more = false;
    for (std::size_t i = 0; i < files_.size(); ++i) {
        File& file = files_[(first_file_ + i) % files_.size()];
        if (sink.ready(file.stream))
            more |= options_.prefix ? read_file(sink, file, now) : pass_bytes(sink, file, now);
    }
    if (!files_.empty())
        first_file_ = (first_file_ + 1) % files_.size();
    return more;
}

std::int64_t LogFollower::unread_bytes(const File& file) const {
    struct stat status {};
    return ::fstat(file.fd.get(), &status) == 0 ? status.st_size - file.offset : 0;
}

// A file that was truncated is read from its beginning.
std::int64_t LogFollower::unread_from_here(File& file) const {
    const std::int64_t unread = unread_bytes(file);
    if (unread >= 0)
        return unread;
    file.offset = 0;
    return std::max(unread_bytes(file), std::int64_t{0});
}

bool LogFollower::read_file(LineSink& sink, File& file, Clock::time_point now) {
    std::int64_t unread = unread_from_here(file);
    if (unread > kBehindLimitBytes) {
        skip_to(file, file.offset + unread - kShownAfterSkipBytes, now);
        unread = kShownAfterSkipBytes;
    }
    const ssize_t got =
        unread == 0 ? 0 : ::pread(file.fd.get(), buffer_.data(), buffer_.size(), file.offset);
    if (got > 0 && skip_gap(file, static_cast<std::size_t>(got), now))
        return true;
    if (got > 0) {
        file.offset += got;
        file.splitter.feed({buffer_.data(), static_cast<std::size_t>(got)}, now, lines_);
    } else if (file.rank_ended) {
        file.splitter.finish(lines_);
    }
    file.splitter.idle(now, lines_, sink.shows_live(file.stream));
    queue_lines(file, now);
    return got > 0 && got < unread;
}

bool LogFollower::pass_bytes(LineSink& sink, File& file, Clock::time_point now) {
    if (unread_from_here(file) == 0)
        return false;
    const ssize_t got = ::pread(file.fd.get(), buffer_.data(), buffer_.size(), file.offset);
    if (got <= 0)
        return false;
    if (const auto gap = gap_in(file, static_cast<std::size_t>(got))) {
        const auto before = static_cast<std::size_t>(gap->begin - file.offset);
        sink.write_bytes(file.stream, {buffer_.data(), before});
        file.offset = gap->end;
        return true;
    }
    const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(got));
    const std::size_t part = whole_part(file, bytes, now);
    sink.write_bytes(file.stream, bytes.substr(0, part));
    file.offset += static_cast<std::int64_t>(part);
    return part > 0 && unread_bytes(file) > 0;
}

// How much of the bytes can go without cutting a line that others' bytes would come into.
std::size_t LogFollower::whole_part(File& file, std::string_view bytes,
                                    Clock::time_point now) const {
    const bool alone = std::all_of(files_.begin(), files_.end(),
                                   [&](const File& other) { return other.rank == file.rank; });
    const std::size_t newline = bytes.rfind('\n');
    if (alone || file.rank_ended || (newline == bytes.npos && bytes.size() == buffer_.size()))
        return bytes.size();
    if (newline != bytes.npos)
        return newline + 1;
    const std::int64_t end = file.offset + static_cast<std::int64_t>(bytes.size());
    if (end != std::exchange(file.cut_at, end))
        file.cut_since = now;
    return now - file.cut_since >= LineSplitter::kPromptDelay ? bytes.size() : 0;
}

// What was given up for want of room reads as zeros (LogRoom).
std::optional<LogFollower::Gap> LogFollower::gap_in(const File& file, std::size_t got) const {
    const std::string_view read(buffer_.data(), got);
    if (read.find('\0') == std::string_view::npos)
        return std::nullopt;
    const off_t gap = ::lseek(file.fd.get(), file.offset, SEEK_HOLE);
    if (gap < 0 || gap >= file.offset + static_cast<off_t>(got))
        return std::nullopt;  // zeros that the rank wrote
    const off_t end = ::lseek(file.fd.get(), gap, SEEK_DATA);
    return end > gap ? std::optional(Gap{gap, end}) : std::nullopt;
}

// True when there was such a gap at the beginning of what was read, or is one now.
bool LogFollower::skip_gap(File& file, std::size_t got, Clock::time_point now) {
    const auto gap = gap_in(file, got);
    if (!gap)
        return false;
    const auto before = static_cast<std::size_t>(gap->begin - file.offset);
    file.splitter.feed({buffer_.data(), before}, now, lines_);
    skip_to(file, gap->end, now);
    return true;
}

// Goes on behind the first newline after `offset`, and says so in the file's own place.
void LogFollower::skip_to(File& file, std::int64_t offset, Clock::time_point now) {
    file.splitter.finish(lines_);
    queue_lines(file, now);
    const ssize_t got = ::pread(file.fd.get(), buffer_.data(), buffer_.size(), offset);
    if (got > 0) {
        const std::size_t newline =
            std::string_view(buffer_.data(), static_cast<std::size_t>(got)).find('\n');
        if (newline != std::string_view::npos)
            offset += static_cast<std::int64_t>(newline) + 1;
    }
    const auto skipped = static_cast<std::uint64_t>(offset - file.offset);
    file.splitter.skip(skipped);
    file.offset = offset;
    queue_line(file, mark_ + format_bytes(skipped) + " not shown; see " + file.path, now);
}

void LogFollower::queue_lines(File& file, Clock::time_point now) {
    for (auto& line : lines_)
        queue_line(file, line.continues ? mark_ + line.text : std::move(line.text), now);
    lines_.clear();
}

void LogFollower::queue_line(const File& file, std::string text, Clock::time_point now) {
    const std::size_t stream = index_of(file.stream);
    if (options_.fold) {
        folders_[stream].add(file.rank, std::move(text), now, queues_[stream]);
    } else {
        queues_[stream].push_back({{file.rank}, std::move(text)});
    }
}

void LogFollower::give_queued(LineSink& sink, Clock::time_point now) {
    for (const OutputStream stream : kStreams) {
        folders_[index_of(stream)].give(now, queues_[index_of(stream)]);
        write_queue(sink, stream);
    }
}

void LogFollower::write_queue(LineSink& sink, OutputStream stream) {
    auto& queue = queues_[index_of(stream)];
    for (const auto& line : queue) {
        const auto own = prefixes_.find(line.ranks.front());
        if (own != prefixes_.end())
            sink.write_line(stream, "", own->second + line.text);
        else
            sink.write_line(stream, options_.prefix ? fold_prefix(line.ranks, hostname_) : "",
                            line.text);
    }
    queue.clear();
}

bool LogFollower::anything_unread() const {
    return std::any_of(files_.begin(), files_.end(),
                       [this](const File& file) { return unread_bytes(file) > 0; });
}

bool LogFollower::owes(const LineSink& sink) const {
    return !options_.prefix && (anything_unread() || !sink.written());
}

bool LogFollower::drain(LineSink& sink, Deadline deadline) {
    for (auto& file : files_)
        rank_ended(file.rank);
    bool written = true;
    bool all_given = false;
    while (written && !all_given && !deadline.passed()) {
        follow(sink);
        all_given = !anything_unread();
        written = all_given || sink.flush(deadline);
    }
    const Clock::time_point now = Clock::now();
    for (auto& file : files_) {
        file.splitter.finish(lines_);
        queue_lines(file, now);
        if (!all_given && unread_bytes(file) > 0)
            say_unread(sink, file);
    }
    for (const OutputStream stream : kStreams) {
        folders_[index_of(stream)].finish(queues_[index_of(stream)]);
        write_queue(sink, stream);
    }
    sink.set_live({});
    return sink.flush(deadline) && all_given;
}

// Among bytes that are passed on as they are nothing of ours may come.
void LogFollower::say_unread(LineSink& sink, File& file) {
    const std::int64_t unread = unread_bytes(file);
    file.offset += unread;
    std::string text =
        mark_ + format_bytes(static_cast<std::uint64_t>(unread)) + " not shown; see " + file.path;
    if (options_.prefix)
        queue_line(file, std::move(text), Clock::now());
    else
        sink.write_line(OutputStream::err, fold_prefix({file.rank}, hostname_), text);
}

}  // namespace autolaunch::launcher
