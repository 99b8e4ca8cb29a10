#include "base/stream_listing.hpp"

#include "base/escaped_word.hpp"
#include "base/path_within.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

namespace autolaunch {

namespace {

constexpr std::string_view kFirstOfStream = "autolaunch stream 1 ";
constexpr std::string_view kFirstOfFailure = "autolaunch stream failed 1";
constexpr std::size_t kMostFailureLine = kMostStreamFailure / 4;
constexpr std::uint64_t kMostStreamBytes = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse_listing(const std::string& why) {
    throw Error(ErrorCode::corrupt, "this is no listing of data that comes: " + why);
}

/// Up to `end`, which has to come; what is left follows it.
std::string_view cut_until(std::string_view& text, char end) {
    const std::size_t at = text.find(end);
    if (at == std::string_view::npos)
        refuse_listing(end == '\n' ? "its last line has no end" : "a line is too short");
    const std::string_view part = text.substr(0, at);
    text.remove_prefix(at + 1);
    return part;
}

std::uint64_t number_of(std::string_view digits) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size() ||
        std::to_string(number) != digits || number > kMostStreamBytes)
        refuse_listing("\"" + std::string(digits.substr(0, 30)) + "\" is no number");
    return number;
}

StreamListing::File file_in(std::string_view line) {
    StreamListing::File file;
    file.bytes = number_of(cut_until(line, ' '));
    auto path = plain_word(line);
    if (!path || !is_path_within(*path) || escaped_word(*path) != line)
        refuse_listing("a file without a name that can be one");
    file.path = std::move(*path);
    return file;
}

std::string in_one_line(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\n' || c == '\0'; }, ' ');
    return text.substr(0, kMostFailureLine);
}

}  // namespace

std::string as_text(const StreamListing& listing) {
    std::uint64_t bytes = 0;
    std::string lines;
    for (const StreamListing::File& file : listing.files) {
        bytes += file.bytes;
        lines += std::to_string(file.bytes) + ' ' + escaped_word(file.path) + '\n';
    }
    return std::string(kFirstOfStream) + (listing.is_file ? "file " : "folder ") +
           std::to_string(listing.files.size()) + ' ' + std::to_string(bytes) + '\n' + lines;
}

StreamListing parse_stream_listing(std::string_view text) {
    if (text.size() > kMostStreamListing || !text.starts_with(kFirstOfStream))
        refuse_listing("its first line is another one");
    text.remove_prefix(kFirstOfStream.size());
    std::string_view first = cut_until(text, '\n');
    const std::string_view kind = cut_until(first, ' ');
    if (kind != "file" && kind != "folder")
        refuse_listing("it is of no kind");
    StreamListing listing{.is_file = kind == "file", .files = {}};
    const std::uint64_t files = number_of(cut_until(first, ' '));
    std::uint64_t left = number_of(first);
    std::set<std::string> seen;
    while (!text.empty()) {
        listing.files.push_back(file_in(cut_until(text, '\n')));
        if (listing.files.back().bytes > left)
            refuse_listing("its first line counts fewer bytes");
        left -= listing.files.back().bytes;
        if (!seen.insert(listing.files.back().path).second)
            refuse_listing("a file is there twice");
    }
    if (listing.files.size() != files || left != 0)
        refuse_listing("its first line counts others");
    if (listing.is_file && (files != 1 || listing.files[0].path.find('/') != std::string::npos))
        refuse_listing("it is of one file, and has others");
    return listing;
}

std::string as_text(const StreamFailure& failure) {
    return std::string(kFirstOfFailure) + '\n' + in_one_line(failure.what) + '\n' +
           in_one_line(failure.hint) + '\n';
}

std::optional<StreamFailure> parse_stream_failure(std::string_view text) {
    const auto lines = split(text, '\n');
    if (lines.size() != 4 || lines[0] != kFirstOfFailure || lines[1].empty() || !lines[3].empty() ||
        lines[1].size() > kMostFailureLine || lines[2].size() > kMostFailureLine ||
        text.find('\0') != std::string_view::npos)
        return std::nullopt;
    return StreamFailure{lines[1], lines[2]};
}

}  // namespace autolaunch
