#include "causes/final_error.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

namespace {

using Lines = std::vector<std::string>;

constexpr std::ptrdiff_t kComplaintLines = 20;  // what was said before, was survived
constexpr std::size_t kMessageLines = 12;       // of one message; what follows is another's

// "[rank3]: Traceback …": PyTorch puts the rank before each line of an uncaught exception.
std::string_view without_rank(std::string_view line) {
    if (!line.starts_with("[rank"))
        return line;
    const auto end = line.find("]: ");
    return end == line.npos ? line : line.substr(end + 3);
}

bool is_indented(std::string_view line) { return line.starts_with(' ') || line.starts_with('\t'); }

// "RuntimeError: x", "torch.cuda.OutOfMemoryError: x", "KeyboardInterrupt".
bool is_python_exception(std::string_view line) {
    const std::string_view name = line.substr(0, line.find(':'));
    return !name.empty() && std::isalpha(static_cast<unsigned char>(name.front())) != 0 &&
           std::all_of(name.begin(), name.end(), [](unsigned char letter) {
               return std::isalnum(letter) != 0 || letter == '_' || letter == '.';
           });
}

// '  File "train.py", line 17, in load'
std::string place_of(std::string_view line) {
    const auto quote = line.find('"');
    const auto end = line.find("\", line ", quote + 1);
    if (end == line.npos)
        return {};
    std::string_view rest = line.substr(end + 8);
    const auto digits = std::min(rest.size(), rest.find_first_not_of("0123456789"));
    std::string place(line.substr(quote + 1, end - quote - 1));
    place += ':';
    place += rest.substr(0, digits);
    return place + std::string(rest.substr(digits));
}

bool is_python_place(std::string_view line) {
    return without_rank(line).starts_with("  File \"") && line.find(", line ") != line.npos;
}

// An error whose message goes on in the next lines.
FinalError message_at(const Lines& lines, std::size_t at, std::string line) {
    FinalError error;
    error.line = std::move(line);
    const std::size_t end = std::min(lines.size(), at + kMessageLines);
    for (std::size_t next = at; next < end && (next == at || !trim(lines[next]).empty()); ++next)
        error.lines.emplace_back(without_rank(lines[next]));
    return error;
}

// "ERROR:root:upload failed, trying again" before it, and much after it: the program went on.
bool was_survived(const Lines& lines, std::size_t place, std::size_t message) {
    constexpr std::size_t kGoesOn = 10;
    if (lines.size() - message <= kGoesOn)
        return false;
    for (std::size_t at = place; at-- > 1;)
        if (lines[at].find("Traceback (most recent call last)") != std::string::npos)
            return lines[at - 1].find("ERROR") != std::string::npos ||
                   lines[at - 1].find("WARNING") != std::string::npos;
    return false;
}

// Places are followed by the source's line and marks under it, all of them indented.
std::optional<FinalError> python_error(const Lines& lines) {
    std::optional<FinalError> found;
    for (std::size_t at = 0; at < lines.size(); ++at) {
        if (!is_python_place(lines[at]))
            continue;
        std::size_t next = at + 1;
        while (next < lines.size() && is_indented(without_rank(lines[next])))
            ++next;
        const bool is_last_place =
            std::none_of(lines.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                         lines.begin() + static_cast<std::ptrdiff_t>(next), is_python_place);
        if (!is_last_place || next == lines.size() ||
            !is_python_exception(without_rank(lines[next])) || was_survived(lines, at, next))
            continue;
        FinalError error = message_at(lines, next, std::string(without_rank(lines[next])));
        error.where = place_of(without_rank(lines[at]));
        if (found)  // which it was raised for, or while that was handled
            error.lines.insert(error.lines.end(), found->lines.begin(), found->lines.end());
        found = std::move(error);
    }
    return found;
}

// "  hint():  x", and lines of it below, which our library prints after an error's "  what():  y".
std::string hint_at(const Lines& lines, std::size_t at) {
    constexpr std::string_view kHint = "  hint():  ";
    constexpr std::size_t kBelow = 11;  // its further lines begin under its first one's text
    for (const std::size_t end = std::min(lines.size(), at + kMessageLines); at < end; ++at) {
        if (!lines[at].starts_with(kHint))
            continue;
        std::string hint = lines[at].substr(kHint.size());
        while (++at < lines.size() && lines[at].find_first_not_of(' ') == kBelow)
            hint += "; " + lines[at].substr(kBelow);
        return hint;
    }
    return {};
}

// "terminate called after throwing an instance of 'std::runtime_error'", then "  what():  x".
std::optional<FinalError> terminate_error(const Lines& lines) {
    constexpr std::string_view kInstance = "terminate called after throwing an instance of '";
    constexpr std::string_view kWhat = "  what():  ";
    for (std::size_t at = lines.size(); at-- > 0;) {
        const auto begin = lines[at].find(kInstance);
        if (begin == std::string::npos)
            continue;
        std::string type = lines[at].substr(begin + kInstance.size());
        type = type.substr(0, type.find('\''));
        FinalError error = message_at(lines, at, type);
        for (std::size_t next = at + 1; next < std::min(lines.size(), at + 3); ++next)
            if (const auto what = lines[next].find(kWhat); what != std::string::npos) {
                error =
                    message_at(lines, next, type + ": " + lines[next].substr(what + kWhat.size()));
                error.lines.push_back(type);
                error.hint = hint_at(lines, next + 1);
                break;
            }
        return error;
    }
    return std::nullopt;
}

// Where the error's line is, of a mark's.
enum class Begins { at_mark, with_line, on_next_line };
struct Mark {
    std::string_view text;
    Begins begins = Begins::at_mark;
};
constexpr std::array kMarks = {
    Mark{"libc++abi: terminating"},
    Mark{"terminate called without an active exception"},
    Mark{"terminate called recursively"},
    Mark{"panicked at ", Begins::on_next_line},
    Mark{"panic: "},
    Mark{"fatal error: "},
    Mark{"Exception in thread "},
    Mark{"ERROR: LoadError: "},
    Mark{"Fortran runtime error: "},
    Mark{"forrtl: severe ("},
    Mark{"ERROR STOP "},
    Mark{"Error allocating "},
    Mark{" - JavaScript heap out of memory", Begins::with_line},
    Mark{"SUMMARY: AddressSanitizer: "},
};

std::optional<FinalError> marked_error(const Lines& lines) {
    for (std::size_t at = lines.size(); at-- > 0;)
        for (const Mark& mark : kMarks) {
            const auto begin = lines[at].find(mark.text);
            if (begin == std::string::npos)
                continue;
            if (mark.begins == Begins::on_next_line && at + 1 < lines.size())
                return message_at(lines, at + 1, lines[at + 1]);
            return message_at(lines, at,
                              mark.begins == Begins::at_mark ? lines[at].substr(begin) : lines[at]);
        }
    return std::nullopt;
}

}  // namespace

FinalError find_final_error(const FailureEvidence& words) {
    if (!words.error_message.empty()) {
        Lines lines = split(words.error_message, '\n');
        FinalError error = message_at(lines, 0, lines.front());
        for (const auto& line : words.callstack)
            if (is_python_place(line))
                error.where = place_of(line);
        error.lines.insert(error.lines.end(), words.callstack.begin(), words.callstack.end());
        return error;
    }
    // A program in Python ends by its own exception, and by C++'s where a thread has one.
    for (const auto find : {terminate_error, python_error, marked_error})
        if (auto error = find(words.last_lines))
            return std::move(*error);
    return {};
}

std::string last_complaint(const FailureEvidence& words) {
    constexpr std::array<std::string_view, 10> kComplaints = {
        "error", "fatal",  "fail",      "abort",     "cannot",
        "can't", "assert", "exception", "not found", "denied"};
    const Lines& lines = words.last_lines;
    const auto complains = [&](const std::string& line) {
        std::string lower(line);
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](unsigned char letter) { return std::tolower(letter); });
        return std::any_of(kComplaints.begin(), kComplaints.end(),
                           [&](std::string_view word) { return lower.find(word) != lower.npos; });
    };
    const auto oldest =
        lines.rbegin() + std::min<std::ptrdiff_t>(kComplaintLines, std::ssize(lines));
    const auto found = std::find_if(lines.rbegin(), oldest, complains);
    if (found != oldest)
        return std::string(trim(*found));
    return lines.empty() ? std::string() : std::string(trim(lines.back()));
}

}  // namespace autolaunch::launcher
