#include "hang_evidence/node_state.hpp"

#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongest = 16 * 1024;
constexpr std::size_t kMostCounters = 4096;
constexpr std::string_view kSent = " port_xmit_data", kReceived = " port_rcv_data";
constexpr std::uint64_t kLaneBytes = 4;  // the unit of these two
constexpr std::array<std::string_view, 10> kFaults{
    "port_xmit_wait",        "port_xmit_discards", "port_rcv_errors", "symbol_error",
    "link_error_recovery",   "link_downed",        "out_of_sequence", "packet_seq_err",
    "local_ack_timeout_err", "rnr_nak_retry_err"};

std::string read(const std::filesystem::path& file) try {
    return read_at_most(file, kLongest);
} catch (const Error&) {
    return {};
}

}  // namespace

std::string describe_pressure(const std::filesystem::path& proc) {
    std::string text;
    for (const char* of : {"cpu", "memory", "io"}) {
        std::istringstream lines(read(proc / "pressure" / of));
        for (std::string line; std::getline(lines, line);)
            text += fmt::format("pressure, {}: {}\n", of, line);
    }
    return text;
}

std::string describe_throttling(pid_t pid, const std::filesystem::path& proc,
                                const std::filesystem::path& sys) {
    std::istringstream groups(read(proc / std::to_string(pid) / "cgroup"));
    std::filesystem::path group;
    for (std::string line; std::getline(groups, line);)
        if (line.starts_with("0::/"))
            group = line.substr(4);
    std::string text;
    for (;; group = group.parent_path()) {
        std::istringstream fields(read(sys / "fs/cgroup" / group / "cpu.stat"));
        std::uint64_t periods = 0, throttled = 0, time_us = 0, value = 0;
        for (std::string name; fields >> name >> value;) {
            periods = name == "nr_periods" ? value : periods;
            throttled = name == "nr_throttled" ? value : throttled;
            time_us = name == "throttled_usec" ? value : time_us;
        }
        if (throttled > 0)
            text +=
                fmt::format("cgroup /{}: its CPU quota was used up in {} of {} periods, {:.1f} s\n",
                            group.string(), throttled, periods, static_cast<double>(time_us) / 1e6);
        if (group.empty())
            return text;
    }
}

std::chrono::microseconds throttled_time(pid_t pid, const std::filesystem::path& proc,
                                         const std::filesystem::path& sys) {
    std::int64_t longest_us = 0;
    std::istringstream groups(read(proc / std::to_string(pid) / "cgroup"));
    for (std::string line; std::getline(groups, line);) {
        // "0::/job", "4:cpu,cpuacct:/job"
        const std::size_t name = line.find(':'), path = line.find(":/");
        if (name == std::string::npos || path == std::string::npos)
            continue;
        const std::string controllers =
            path > name ? line.substr(name + 1, path - name - 1) : std::string();
        const auto names = split(controllers, ',');
        if (!controllers.empty() && std::find(names.begin(), names.end(), "cpu") == names.end())
            continue;
        for (std::filesystem::path group = line.substr(path + 2);; group = group.parent_path()) {
            std::istringstream fields(read(sys / "fs/cgroup" / controllers / group / "cpu.stat"));
            std::int64_t value = 0;
            for (std::string field; fields >> field >> value;)
                if (field == "throttled_usec" || field == "throttled_time")
                    longest_us =
                        std::max(longest_us, field == "throttled_usec" ? value : value / 1000);
            if (group.empty())
                break;
        }
    }
    return std::chrono::microseconds(longest_us);
}

HcaCounters read_hca_counters(const std::filesystem::path& sys) {
    HcaCounters counters;
    std::error_code ignored;
    for (const auto& adapter : list_folder(sys / "class/infiniband", ignored))
        for (const auto& port : list_folder(adapter / "ports", ignored))
            for (const char* kind : {"counters", "hw_counters"})
                for (const auto& file : list_folder(port / kind, ignored)) {
                    const std::string text(trim(read(file)));
                    std::uint64_t value = 0;
                    const auto [end, error] =
                        std::from_chars(text.data(), text.data() + text.size(), value);
                    if (error == std::errc() && counters.size() < kMostCounters)
                        counters[fmt::format("{} port {} {}", adapter.filename().string(),
                                             port.filename().string(), file.filename().string())] =
                            value;
                }
    return counters;
}

std::uint64_t hca_bytes(const HcaCounters& counters) {
    std::uint64_t sum = 0;
    for (const auto& [name, value] : counters)
        if (name.ends_with(kSent) || name.ends_with(kReceived))
            sum += value * kLaneBytes;
    return sum;
}

std::string describe_hcas(const HcaCounters& before, const HcaCounters& after, double seconds) {
    const auto grown = [&](const std::string& name) -> std::uint64_t {
        const auto then = before.find(name), now = after.find(name);
        if (then == before.end() || now == after.end() || now->second < then->second)
            return 0;
        return now->second - then->second;
    };
    std::set<std::string> ports;
    for (const auto& [name, value] : after)
        ports.insert(name.substr(0, name.rfind(' ')));
    std::string text;
    for (const std::string& port : ports) {
        text += fmt::format("{}: {} bytes sent, {} received in {:.1f} s", port,
                            grown(port + std::string(kSent)) * kLaneBytes,
                            grown(port + std::string(kReceived)) * kLaneBytes, seconds);
        for (const std::string_view fault : kFaults) {
            const std::string name = fmt::format("{} {}", port, fault);
            const auto found = after.find(name);
            if (found == after.end() || found->second == 0)
                continue;
            text += fmt::format(", {} {}", fault, found->second);
            if (const std::uint64_t now = grown(name); now > 0)
                text += fmt::format(" ({} of them now)", now);
        }
        text += '\n';
    }
    return text;
}

}  // namespace autolaunch::launcher
