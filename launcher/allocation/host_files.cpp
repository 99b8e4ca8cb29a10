#include "allocation/host_files.hpp"

#include "allocation/adapters.hpp"
#include "allocation/hostlist.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <unordered_set>

namespace autolaunch::launcher {

std::vector<std::string> hosts_in_file(const std::string& variable, const std::string& path,
                                       const FileReader& read_text) {
    std::string text;
    try {
        text = read_text(path);
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}={}: {}", variable, path, error.what()),
                    "the file names the nodes; where it is not on every node, give --nnodes, "
                    "--node-rank and "
                    "--master-addr instead");
    }
    std::vector<std::string> hosts;
    for (const auto& line : split(text, '\n')) {
        const std::string_view word = trim(line);
        if (word.empty() || word.starts_with('#'))
            continue;
        hosts.emplace_back(word.substr(0, word.find_first_of(" \t")));
    }
    return hosts;
}

Allocation allocation_of_hosts(const std::string& source, const std::vector<std::string>& hosts,
                               const std::string& hostname, const std::string& from) {
    Allocation allocation;
    allocation.source = source;
    std::unordered_set<std::string_view> seen;
    for (const auto& host : hosts)
        if (seen.insert(host).second)
            allocation.node_names.push_back(host);
    if (allocation.node_names.size() > kMaxHosts)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} names more than {} hosts", from, kMaxHosts));
    const auto position = find_host(allocation.node_names, hostname);
    if (!position) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("this machine, {}, is not one of the {} hosts that {} names", hostname,
                        allocation.node_names.size(), from),
            "start autolaunch on these hosts, or give --nnodes, --node-rank and --master-addr");
    }
    allocation.node_rank = static_cast<int>(*position);
    return allocation;
}

}  // namespace autolaunch::launcher
