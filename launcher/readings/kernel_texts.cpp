#include "readings/kernel_texts.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <charconv>

namespace autolaunch::launcher {
namespace {

constexpr std::uint64_t kSector = 512;  // of diskstats, whatever the disk has

/// Calls `on_line` with each line.
template <class OnLine>
void each_line(std::string_view text, OnLine on_line) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        on_line(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

std::string_view next_word(std::string_view& text) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end);
    return word;
}

template <class Number>
bool number_of(std::string_view word, Number& number) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc() && end == word.data() + word.size();
}

/// The numbers of the line until something else comes.
std::vector<std::uint64_t> numbers_of(std::string_view line) {
    std::vector<std::uint64_t> numbers;
    std::uint64_t number = 0;
    while (number_of(next_word(line), number))
        numbers.push_back(number);
    return numbers;
}

}  // namespace

std::optional<CpuCounters> parse_proc_stat(std::string_view text, double ticks) {
    std::optional<CpuCounters> found;
    int cpus = 0;
    each_line(text, [&](std::string_view line) {
        const std::string_view name = next_word(line);
        if (name != "cpu") {
            cpus += name.starts_with("cpu") ? 1 : 0;
            return;
        }
        const auto all = numbers_of(line);
        if (all.size() < 7 || ticks <= 0)
            return;
        const auto at = [&](std::size_t i) {
            return i < all.size() ? static_cast<double>(all[i]) / ticks : 0;
        };
        found = CpuCounters{at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), 0};
    });
    if (found)
        found->cpus = cpus;
    return found;
}

std::optional<double> parse_load1(std::string_view text) {
    double load = 0;
    return number_of(next_word(text), load) ? std::optional(load) : std::nullopt;
}

MemorySample parse_meminfo(std::string_view text) {
    MemorySample memory;
    std::optional<std::uint64_t> swap_total, swap_free;
    each_line(text, [&](std::string_view line) {
        const std::string_view key = next_word(line);
        std::uint64_t kib = 0;
        if (!number_of(next_word(line), kib))
            return;
        const auto bytes = kib << 10;
        if (key == "MemTotal:")
            memory.total_bytes = bytes;
        else if (key == "MemAvailable:")
            memory.available_bytes = bytes;
        else if (key == "Shmem:")
            memory.shared_bytes = bytes;
        else if (key == "Dirty:")
            memory.dirty_bytes = bytes;
        else if (key == "SwapTotal:")
            swap_total = bytes;
        else if (key == "SwapFree:")
            swap_free = bytes;
    });
    if (swap_total && swap_free)
        memory.swap_used_bytes = *swap_total - std::min(*swap_total, *swap_free);
    return memory;
}

Stalls parse_pressure(std::string_view text) {
    Stalls stalls;
    each_line(text, [&](std::string_view line) {
        const std::string_view kind = next_word(line);
        constexpr std::string_view kTotal = " total=";
        const std::size_t at = line.find(kTotal);
        std::uint64_t total = 0;
        if (at == line.npos || !number_of(trim(line.substr(at + kTotal.size())), total))
            return;
        if (kind == "some")
            stalls.some = total;
        else if (kind == "full")
            stalls.full = total;
    });
    return stalls;
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
    std::optional<std::uint64_t> found;
    each_line(text, [&](std::string_view line) {
        std::uint64_t number = 0;
        if (next_word(line) == key && number_of(next_word(line), number))
            found = number;
    });
    return found;
}

void parse_cpu_stat(std::string_view text, CgroupCounters& into) {
    constexpr double kMicro = 1e-6, kNano = 1e-9;
    if (const auto used = number_after(text, "usage_usec"))
        into.cpu_seconds = static_cast<double>(*used) * kMicro;
    if (const auto held = number_after(text, "throttled_usec"))
        into.throttled_seconds = static_cast<double>(*held) * kMicro;
    else if (const auto held_ns = number_after(text, "throttled_time"))
        into.throttled_seconds = static_cast<double>(*held_ns) * kNano;
}

std::optional<std::string> cgroup_path(std::string_view text, std::string_view controller) {
    std::optional<std::string> found;
    each_line(text, [&](std::string_view line) {
        const std::size_t first = line.find(':');
        const std::size_t second = first == line.npos ? first : line.find(':', first + 1);
        if (second == line.npos)
            return;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const auto names = split(controllers, ',');
        const bool is_it = controller.empty()
                               ? line.starts_with("0::")
                               : std::find(names.begin(), names.end(), controller) != names.end();
        if (is_it)
            found = std::string(line.substr(second + 1));
    });
    return found;
}

std::vector<NetworkCounters> parse_net_dev(std::string_view text) {
    std::vector<NetworkCounters> devices;
    each_line(text, [&](std::string_view line) {
        const std::size_t colon = line.find(':');
        if (colon == line.npos || line.find('|') != line.npos)
            return;
        const std::string_view name = trim(line.substr(0, colon));
        const auto all = numbers_of(line.substr(colon + 1));
        constexpr std::size_t kColumns = 12, kReceived = 0, kReceiveErrors = 2, kReceiveDrops = 3,
                              kSent = 8, kSendErrors = 10, kSendDrops = 11;
        if (name == "lo" || all.size() < kColumns || (all[kReceived] == 0 && all[kSent] == 0))
            return;
        devices.push_back({std::string(name), all[kReceived], all[kSent],
                           all[kReceiveDrops] + all[kSendDrops],
                           all[kReceiveErrors] + all[kSendErrors]});
    });
    return devices;
}

std::vector<DiskCounters> parse_diskstats(std::string_view text,
                                          const std::vector<std::string>& whole_disks) {
    std::vector<DiskCounters> disks;
    each_line(text, [&](std::string_view line) {
        next_word(line), next_word(line);  // major, minor
        const std::string name(next_word(line));
        for (const char* made : {"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"})
            if (name.starts_with(made))
                return;
        const auto all = numbers_of(line);
        constexpr std::size_t kColumns = 10, kReads = 0, kReadSectors = 2, kWrites = 4,
                              kWrittenSectors = 6, kBusyMs = 9;
        if (all.size() < kColumns || (all[kReads] == 0 && all[kWrites] == 0) ||
            std::find(whole_disks.begin(), whole_disks.end(), name) == whole_disks.end())
            return;
        disks.push_back(
            {name, all[kReadSectors] * kSector, all[kWrittenSectors] * kSector, all[kBusyMs]});
    });
    return disks;
}

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
    const std::size_t name_end = text.rfind(')');  // the name may hold any character
    if (name_end == text.npos)
        return std::nullopt;
    std::string_view rest = text.substr(name_end + 1);
    next_word(rest);  // its state
    std::vector<std::int64_t> all;
    std::int64_t number = 0;
    constexpr std::size_t kColumns = 21, kParent = 0, kUser = 10, kChildrenSystem = 13,
                          kThreads = 16, kResident = 20;
    while (all.size() < kColumns && rest.find_first_not_of(" \t\n") != rest.npos) {
        const std::string_view word = next_word(rest);
        if (!number_of(word, number)) {  // beyond int64: an address, or unlimited
            std::uint64_t large = 0;
            if (!number_of(word, large))
                return std::nullopt;
            number = 0;
        }
        all.push_back(number);
    }
    if (all.size() < kColumns)
        return std::nullopt;
    ProcessStat stat;
    stat.parent = static_cast<int>(all[kParent]);
    stat.threads = static_cast<int>(all[kThreads]);
    for (std::size_t at = kUser; at <= kChildrenSystem; ++at)
        stat.ticks += static_cast<std::uint64_t>(std::max<std::int64_t>(all[at], 0));
    stat.resident_pages = static_cast<std::uint64_t>(std::max<std::int64_t>(all[kResident], 0));
    return stat;
}

std::vector<std::string> slowed_by(std::uint64_t reasons) {
    struct Word {
        std::uint64_t bits;
        const char* word;
    };
    // Of nvml.h's nvmlClocksEventReason*: 0x8 is the hardware's slowdown, for heat or power.
    constexpr Word kWords[] = {
        {0x20 | 0x40, "thermal"}, {0x80, "power"},          {0x8, "hardware"}, {0x4, "power_cap"},
        {0x10, "sync"},           {0x2 | 0x100, "setting"}, {0x1, "idle"}};
    std::vector<std::string> words;
    for (const Word& word : kWords)
        if ((reasons & word.bits) != 0)
            words.emplace_back(word.word);
    return words;
}

std::optional<double> parse_link_rate(std::string_view text) {
    constexpr double kGigabit = 1e9 / 8;
    double rate = 0;
    const std::string_view number = next_word(text);
    if (!number_of(number, rate) || next_word(text) != "Gb/sec" || rate <= 0)
        return std::nullopt;
    return rate * kGigabit;
}

}  // namespace autolaunch::launcher
