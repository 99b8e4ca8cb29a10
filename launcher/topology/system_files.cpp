#include "topology/system_files.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

namespace autolaunch::launcher {

std::optional<std::string> read_small(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd)
        return std::nullopt;
    std::array<char, 16384> buffer;  // /proc/self/status holds whole CPU masks
    ssize_t got = 0;
    do {
        got = ::read(fd.get(), buffer.data(), buffer.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return std::nullopt;
    return std::string(trim(std::string_view(buffer.data(), static_cast<std::size_t>(got))));
}

std::optional<long long> read_number(const std::string& path) {
    const auto text = read_small(path);
    long long value = 0;
    if (!text || !parse_integer(*text, value))
        return std::nullopt;
    return value;
}

std::vector<std::string> read_table(const std::string& path) {
    constexpr std::size_t kMost = 256 << 10;
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    std::array<char, 16384> buffer;
    while (fd && text.size() < kMost) {
        const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text.empty() ? std::vector<std::string>{} : split(text, '\n');
}

std::optional<std::vector<int>> parse_list(std::string_view text) {
    constexpr long long kMost = 65536;
    std::vector<int> numbers;
    if (trim(text).empty())
        return numbers;
    for (const std::string& part : split(trim(text), ',')) {
        const std::size_t dash = part.find('-');
        long long low = 0, high = 0;
        if (!parse_integer(std::string_view(part).substr(0, dash), low))
            return std::nullopt;
        high = low;
        if (dash != std::string::npos &&
            !parse_integer(std::string_view(part).substr(dash + 1), high))
            return std::nullopt;
        if (low < 0 || high < low || high >= kMost)
            return std::nullopt;
        for (long long number = low; number <= high; ++number)
            numbers.push_back(static_cast<int>(number));
        if (numbers.size() > static_cast<std::size_t>(kMost))
            return std::nullopt;
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

std::optional<std::vector<int>> read_list(const std::string& path) {
    const auto text = read_small(path);
    if (!text)
        return std::nullopt;
    return parse_list(*text);
}

std::vector<std::string> list_directory(const std::string& path) {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
    if (!directory)
        return names;
    while (const dirent* entry = ::readdir(directory.get())) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..")
            names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::map<std::string, std::string> read_fields(const std::string& path) {
    std::map<std::string, std::string> fields;
    const auto text = read_small(path);
    if (!text)
        return fields;
    for (const std::string& line : split(*text, '\n')) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos)
            continue;
        fields.emplace(trim(std::string_view(line).substr(0, colon)),
                       trim(std::string_view(line).substr(colon + 1)));
    }
    return fields;
}

std::map<std::string, std::uint64_t> read_properties(const std::string& path) {
    std::map<std::string, std::uint64_t> properties;
    const auto text = read_small(path);
    if (!text)
        return properties;
    for (const std::string& line : split(*text, '\n')) {
        const std::size_t space = line.find(' ');
        if (space == std::string::npos)
            continue;
        const char* const end = line.data() + line.size();
        std::uint64_t value = 0;
        const auto parsed = std::from_chars(line.data() + space + 1, end, value);
        if (parsed.ec == std::errc() && parsed.ptr == end)
            properties.emplace(line.substr(0, space), value);
    }
    return properties;
}

std::string read_link(const std::string& path) {
    std::array<char, 4096> buffer;
    const ssize_t size = ::readlink(path.c_str(), buffer.data(), buffer.size());
    return size > 0 ? std::string(buffer.data(), static_cast<std::size_t>(size)) : std::string();
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace autolaunch::launcher
