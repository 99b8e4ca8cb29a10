#include "causes/kernel_words.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace autolaunch::launcher {

namespace {

// The number behind a text.
std::optional<int> number_behind(std::string_view line, std::string_view text) {
    const auto at = line.find(text);
    if (at == line.npos)
        return std::nullopt;
    const std::string_view rest = line.substr(at + text.size());
    long long number = 0;
    const auto digits = rest.substr(0, std::min(rest.size(), rest.find_first_not_of("0123456789")));
    if (!parse_integer(digits, number))
        return std::nullopt;
    return static_cast<int>(number);
}

// NVIDIA's list of Xids: memory, links, the bus, the board and its firmware. Those that a wild
// pointer or a killed process causes (13, 31, 43, 45, 68, 69) are not here, nor 63 and 94, which
// the GPU has contained.
constexpr std::array kHardwareXids = {
    32,  38,  46,  48,  54,  56,  57,  58,  59,  60,  61,  62,  64,  65,  66,  67,  72,
    74,  77,  78,  79,  80,  81,  82,  92,  95,  96,  97,  110, 119, 120, 121, 123, 136,
    137, 140, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 154, 155, 156, 158};

}  // namespace

std::optional<Xid> read_xid(std::string_view line) {
    constexpr std::string_view kXid = "NVRM: Xid (";
    const auto begin = line.find(kXid);
    if (begin == line.npos)
        return std::nullopt;
    const auto number = number_behind(line.substr(begin), "): ");
    if (!number)
        return std::nullopt;
    Xid xid;
    xid.number = *number;
    xid.pid = number_behind(line.substr(begin), "pid=");
    xid.is_hardware = is_hardware_xid(*number);
    return xid;
}

bool is_hardware_xid(int number) {
    return std::find(kHardwareXids.begin(), kHardwareXids.end(), number) != kHardwareXids.end();
}

std::optional<int> read_oom_victim(std::string_view line) {
    if (line.find("ut of memory") == line.npos)
        return std::nullopt;
    return number_behind(line, "Killed process ");
}

bool tells_fault_of(std::string_view line, int pid) {
    const std::string mark = "[" + std::to_string(pid) + "]";
    const auto at = line.find(mark);
    if (at == line.npos)
        return false;
    const std::string_view rest = line.substr(at + mark.size());
    return rest.starts_with(": segfault at ") || line.find("traps: ") < at;
}

bool is_telling_kernel_line(std::string_view line) {
    constexpr std::array<std::string_view, 6> kTexts = {
        "NVRM: Xid (", "ut of memory", "]: segfault at ", "traps: ", "I/O error", "nfs: server "};
    return std::any_of(kTexts.begin(), kTexts.end(),
                       [&](std::string_view text) { return line.find(text) != line.npos; });
}

}  // namespace autolaunch::launcher
