#include "post_mortem/hca_ports.hpp"

#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <system_error>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestState = 256;
constexpr std::size_t kMostPorts = 256;

// "4: ACTIVE"
std::string read_state(const std::filesystem::path& file) try {
    const std::string text = read_at_most(file, kLongestState);
    const std::size_t colon = text.find(':');
    return std::string(trim(colon == text.npos ? text : text.substr(colon + 1)));
} catch (const Error&) {
    return {};
}

}  // namespace

std::vector<HcaPort> read_hca_ports(const std::filesystem::path& sys) {
    std::vector<HcaPort> ports;
    std::error_code ignored;
    for (const auto& adapter : list_folder(sys / "class/infiniband", ignored))
        for (const auto& port : list_folder(adapter / "ports", ignored))
            if (ports.size() < kMostPorts)
                ports.push_back({adapter.filename().string() + " port " + port.filename().string(),
                                 read_state(port / "state")});
    std::sort(ports.begin(), ports.end(),
              [](const HcaPort& one, const HcaPort& other) { return one.name < other.name; });
    return ports;
}

std::vector<std::string> ports_gone_down(const std::vector<HcaPort>& before,
                                         const std::vector<HcaPort>& now) {
    std::vector<std::string> gone;
    for (const HcaPort& port : before) {
        if (port.state != "ACTIVE")
            continue;
        const auto found = std::find_if(
            now.begin(), now.end(), [&](const HcaPort& other) { return other.name == port.name; });
        if (found == now.end())
            gone.push_back(port.name + " is gone");
        else if (!found->state.empty() && found->state != "ACTIVE")
            gone.push_back(port.name + " is " + found->state);
    }
    return gone;
}

}  // namespace autolaunch::launcher
