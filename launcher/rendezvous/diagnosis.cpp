#include "rendezvous/diagnosis.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kStrangersShown = 8;

std::string ports_text(const std::vector<std::uint16_t>& ports) {
    std::vector<std::string> words;
    for (const auto port : ports)
        words.push_back(std::to_string(port));
    return (ports.size() == 1 ? "port " : "ports ") + join(words, ", ");
}

std::string lookup_line(const NameLookup& lookup) {
    const std::string& name = lookup.host.name;
    if (lookup.addresses.empty())
        return fmt::format("{} ({}) does not resolve: {}", name, lookup.host.meaning, lookup.error);
    if (lookup.addresses.size() == 1 && lookup.addresses[0] == name)
        return fmt::format("{} is {}", name, lookup.host.meaning);
    return fmt::format("{} ({}) is {}", name, lookup.host.meaning, join(lookup.addresses, ", "));
}

// Ports with the same outcome in one line, the outcomes in the order of their first port.
std::vector<std::string> dial_lines(const DialRecord& dial) {
    std::vector<std::pair<std::string, std::vector<std::uint16_t>>> outcomes;
    for (const auto& [port, error] : dial.last_error) {
        const auto known =
            std::find_if(outcomes.begin(), outcomes.end(),
                         [&, &text = error](const auto& outcome) { return outcome.first == text; });
        if (known == outcomes.end())
            outcomes.push_back({error, {port}});
        else
            known->second.push_back(port);
    }
    std::vector<std::string> lines;
    const std::string way = dial.route.empty() ? "no way leads there" : "through " + dial.route;
    for (const auto& [error, ports] : outcomes)
        lines.push_back(
            fmt::format("{} ({}), {}: {}", dial.address, way, ports_text(ports), error));
    return lines;
}

bool any_dial(const SearchRecord& record, std::string_view part) {
    return std::any_of(record.dials.begin(), record.dials.end(), [&](const DialRecord& dial) {
        return std::any_of(dial.last_error.begin(), dial.last_error.end(), [&](const auto& entry) {
            return entry.second.find(part) != std::string::npos;
        });
    });
}

std::vector<std::string> advice(const SearchRecord& record) {
    std::vector<std::string> lines;
    if (record.dials.empty())
        lines.push_back("make the name known to this machine's resolver (`getent hosts " +
                        record.head_name + "`), or name the head's address with --master-addr");
    if (any_dial(record, "timed out") || any_dial(record, "no answer yet"))
        lines.push_back(
            "what does not answer is mostly a firewall: let these ports through between the nodes");
    if (any_dial(record, "refused"))
        lines.push_back("where a connection is refused nobody listens: was the agent started on " +
                        record.head_name + ", and what did it print?");
    lines.push_back("if the head only starts late, raise rendezvous.timeout (" +
                    seconds_text(record.timeout) + ")");
    return lines;
}

std::string stranger_line(const std::string& address, const Stranger& stranger) {
    const std::string times = stranger.times == 1 ? "" : fmt::format(", {} times", stranger.times);
    return fmt::format("{} was turned away{}: {}", address, times, stranger.reason);
}

std::vector<std::string> stranger_lines(const WaitRecord& record) {
    std::vector<std::string> lines;
    for (const auto& [address, stranger] : record.strangers) {
        if (lines.size() == kStrangersShown) {
            lines.push_back(
                fmt::format("and {} more addresses", record.strangers.size() - kStrangersShown));
            break;
        }
        lines.push_back(stranger_line(address, stranger));
    }
    return lines;
}

}  // namespace

std::string seconds_text(std::chrono::milliseconds duration) {
    return fmt::format("{:g} s", static_cast<double>(duration.count()) / 1000);
}

Diagnosis diagnose(const SearchRecord& record) {
    Diagnosis diagnosis;
    diagnosis.what = fmt::format("the head, {}, was not reached within {}", record.head_name,
                                 seconds_text(record.timeout));
    std::vector<std::string> lines;
    if (!record.broken_off.empty()) {
        diagnosis.what =
            fmt::format("the head, {}, was reached and went away again", record.head_name);
        lines.push_back("its connection ended: " + record.broken_off);
    }
    for (const auto& lookup : record.lookups)
        lines.push_back(lookup_line(lookup));
    if (record.lookups.empty())
        lines.push_back("the resolver has not answered for " + record.head_name);
    for (const auto& dial : record.dials)
        for (auto& line : dial_lines(dial))
            lines.push_back(std::move(line));
    for (auto& line : advice(record))
        lines.push_back(std::move(line));
    diagnosis.hint = join(lines, "\n");
    return diagnosis;
}

Diagnosis diagnose(const WaitRecord& record) {
    Diagnosis diagnosis;
    diagnosis.what = fmt::format("{} of {} nodes did not join within {}: {}", record.missing_count,
                                 record.node_count, seconds_text(record.timeout), record.missing);
    std::vector<std::string> lines = stranger_lines(record);
    lines.push_back(fmt::format("the head, {}, listened on {} port {}, at {}", record.head_name,
                                record.ipv4_only ? "IPv4" : "IPv4 and IPv6", record.port,
                                record.own_addresses.empty() ? "no address but the loopback's"
                                                             : join(record.own_addresses, ", ")));
    lines.push_back("look at what the agents of " + record.missing +
                    " print: each says what it tried");
    lines.push_back("if a firewall is between the nodes, let TCP " + ports_text(record.ports) +
                    " through");
    lines.push_back("if nodes only start late, raise rendezvous.timeout (" +
                    seconds_text(record.timeout) + ")");
    diagnosis.hint = join(lines, "\n");
    return diagnosis;
}

}  // namespace autolaunch::launcher
