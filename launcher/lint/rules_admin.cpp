// What administrators' documents give to copy: partitions, slurmdbd's keys, ports.

#include "base/text.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// Behind sudo and the like: where `name` stands among the first words.
std::optional<std::size_t> find_program(const ShellCommand& command, std::string_view name) {
    constexpr std::size_t kFarthest = 4;
    for (std::size_t i = 0; i < std::min(command.words.size(), kFarthest); ++i)
        if (program_name(command.words[i].value) == name)
            return i;
    return std::nullopt;
}

/// `scontrol create partition NAME …`: what is to be there instead.
Edits right_partition(const SourceLines& source, const Word& partition, const Word* next) {
    if (next == nullptr || next->line != partition.line)
        return {};
    const std::size_t equals = next->value.find('=');
    const std::string key = next->value.substr(0, equals);
    if (equals != std::string::npos && equals_ignoring_case(key, "PartitionName"))
        return remove_word(source, partition.line, partition.raw);
    if (equals != std::string::npos && !equals_ignoring_case(key, "name"))
        return {};
    const std::string name = equals == std::string::npos ? next->raw : next->raw.substr(equals + 1);
    return together(replace_word(source, partition.line, partition.raw, "PartitionName=" + name),
                    remove_word(source, next->line, next->raw));
}

RuleHits create_partition(const Subject& subject) {
    RuleHits hits;
    for (const auto& command : subject.script.shell.commands) {
        const auto at = find_program(command, "scontrol");
        const auto& words = command.words;
        if (!at || *at + 2 >= words.size() || words[*at + 1].value != "create" ||
            !equals_ignoring_case(words[*at + 2].value, "partition"))
            continue;
        const Word& partition = words[*at + 2];
        const Word* next = *at + 3 < words.size() ? &words[*at + 3] : nullptr;
        hits.push_back({partition.line,
                        "scontrol create knows no word partition: Invalid input, Request aborted",
                        {},
                        right_partition(subject.source, partition, next)});
    }
    return hits;
}

// Keys of slurmdbd.conf that slurm.conf refuses ("unrecognized key"); others are in both.
constexpr std::array<std::string_view, 40> kOfSlurmdbd = {"AllResourcesAbsolute",
                                                          "AllowNoDefAcct",
                                                          "ArchiveDir",
                                                          "ArchiveEvents",
                                                          "ArchiveJobs",
                                                          "ArchiveResvs",
                                                          "ArchiveScript",
                                                          "ArchiveSteps",
                                                          "ArchiveSuspend",
                                                          "ArchiveTXN",
                                                          "ArchiveUsage",
                                                          "CommitDelay",
                                                          "DbdAddr",
                                                          "DbdBackupHost",
                                                          "DbdHost",
                                                          "DbdPort",
                                                          "DebugLevel",
                                                          "DebugLevelSyslog",
                                                          "DefaultQOS",
                                                          "DisableCoordDBD",
                                                          "LogFile",
                                                          "MaxQueryTimeRange",
                                                          "PidFile",
                                                          "PurgeEventAfter",
                                                          "PurgeJobAfter",
                                                          "PurgeResvAfter",
                                                          "PurgeStepAfter",
                                                          "PurgeSuspendAfter",
                                                          "PurgeTXNAfter",
                                                          "PurgeUsageAfter",
                                                          "StorageBackupHost",
                                                          "StorageHost",
                                                          "StorageLoc",
                                                          "StorageParameters",
                                                          "StoragePass",
                                                          "StoragePassScript",
                                                          "StoragePort",
                                                          "StorageType",
                                                          "StorageUser",
                                                          "TrackSlurmctldDown"};

RuleHits slurmdbd_key(const Subject& subject) {
    RuleHits hits;
    if (subject.kind != FileKind::slurm_conf)
        return hits;
    // One block of a document may show both files, each behind a comment with its name.
    int other_file = 0;
    for (std::size_t i = 0; i < subject.source.lines.size() && other_file == 0; ++i)
        if (const auto line = trim(subject.source.lines[i]);
            line.starts_with('#') && line.find("slurmdbd.conf") != std::string_view::npos)
            other_file = static_cast<int>(i) + subject.source.first_line;
    for (const auto& line : subject.conf.lines) {
        if (line.fields.empty() || (other_file > 0 && line.line > other_file))
            continue;
        const std::string& key = line.fields.front().first;  // no value: it may be a password
        const bool found =
            std::any_of(kOfSlurmdbd.begin(), kOfSlurmdbd.end(),
                        [&](std::string_view known) { return equals_ignoring_case(known, key); });
        if (found && subject.source.at(line.line) != nullptr)
            hits.push_back({line.line,
                            key + " is a key of slurmdbd.conf: slurm.conf knows none of that name",
                            {},
                            {{line.line, 1, "", "# of slurmdbd.conf: "}}});
    }
    return hits;
}

struct Dashboard {
    std::string_view program;
    std::string_view option;  ///< that names the address
};
constexpr std::array<Dashboard, 14> kDashboards = {{
    {"tensorboard", "--host"},
    {"tensorboard.main", "--host"},
    {"jupyter", "--ip"},
    {"jupyter-lab", "--ip"},
    {"jupyter-notebook", "--ip"},
    {"mlflow", "--host"},
    {"mlflow", "-h"},
    {"aim", "--host"},
    {"ray", "--dashboard-host"},
    {"streamlit", "--server.address"},
    {"prometheus", "--web.listen-address"},
    {"alertmanager", "--web.listen-address"},
    {"prometheus-alertmanager", "--web.listen-address"},
    {"kubectl", "--address"},
}};

struct DashboardPort {
    long long port;
    const char* name;
};
constexpr std::array<DashboardPort, 7> kPorts = {{{3000, "Grafana"},
                                                  {6006, "TensorBoard"},
                                                  {8265, "Ray's dashboard"},
                                                  {8501, "Streamlit"},
                                                  {8888, "Jupyter"},
                                                  {9090, "Prometheus"},
                                                  {9093, "Alertmanager"}}};

const char* dashboard_at(std::string_view port) {
    const auto number = whole_number(port.substr(0, port.find('/')));
    for (const auto& known : kPorts)
        if (number == known.port)
            return known.name;
    return nullptr;
}

/// "0.0.0.0" of "0.0.0.0:9090", "::", "*"; empty where the address is one machine's.
std::string everywhere(const std::string& value) {
    for (const std::string_view all : {"0.0.0.0", "[::]", "::", "*"})
        if (value == all || (all != "::" && value.starts_with(std::string(all) + ':')))
            return std::string(all);
    return {};
}

void check_address(const Subject& subject, const ShellCommand& command, const Dashboard& dashboard,
                   RuleHits& hits) {
    const auto at = find_program(command, dashboard.program);
    for (std::size_t i = at.value_or(command.words.size()) + 1; i < command.words.size(); ++i) {
        const Word& word = command.words[i];
        if (dashboard.program.starts_with("tensorboard") &&
            (word.value == "--bind_all" || word.value == "--bind-all")) {
            hits.push_back({word.line,
                            "TensorBoard listens to everybody who reaches this node",
                            {},
                            replace_word(subject.source, word.line, word.raw, "--host=127.0.0.1")});
            continue;
        }
        const std::size_t equals = word.value.find('=');
        const bool inside = equals != std::string::npos;
        if (word.value.substr(0, equals) != dashboard.option ||
            (!inside && i + 1 == command.words.size()))
            continue;
        const Word& value = inside ? word : command.words[i + 1];
        const std::string address =
            everywhere(inside ? word.value.substr(equals + 1) : value.value);
        if (address.empty())
            continue;
        std::string raw = value.raw;
        raw.replace(raw.find(address, inside ? raw.find('=') : 0), address.size(), "127.0.0.1");
        hits.push_back({value.line,
                        fmt::format("{} listens to everybody who reaches this node ({})",
                                    dashboard.program, address),
                        {},
                        replace_word(subject.source, value.line, value.raw, raw)});
    }
}

/// `docker run -p 3000:3000`: without an address it is every one, also past the firewall.
void check_published(const Subject& subject, const ShellCommand& command, RuleHits& hits) {
    const auto& words = command.words;
    if (!find_program(command, "docker") && !find_program(command, "podman"))
        return;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string mapping;
        const Word* word = &words[i];
        if ((word->value == "-p" || word->value == "--publish") && i + 1 < words.size())
            mapping = (word = &words[i + 1])->value;
        else if (word->value.starts_with("--publish="))
            mapping = word->value.substr(10);
        const auto parts = split(mapping, ':');
        const bool all = parts.size() == 2 || (parts.size() == 3 && parts[0] == "0.0.0.0");
        const char* name = all ? dashboard_at(parts.back()) : nullptr;
        if (name == nullptr || !word->literal)
            continue;
        std::string raw = word->raw;
        const std::string host = parts.size() == 3 ? "0.0.0.0:" : "";
        const std::size_t begin = raw.find(mapping);
        if (begin == std::string::npos)
            continue;
        raw.replace(begin, host.size(), "127.0.0.1:");
        hits.push_back({word->line,
                        fmt::format("{}'s port is published on every address", name),
                        {},
                        replace_word(subject.source, word->line, word->raw, raw)});
    }
}

/// Firewalls: ufw allow 3000, firewall-cmd --add-port=3000/tcp, iptables … --dport 3000 -j ACCEPT.
void check_firewall(const ShellCommand& command, RuleHits& hits) {
    const auto& words = command.words;
    std::string port;
    const auto has = [&](std::string_view text) {
        return std::any_of(words.begin(), words.end(),
                           [text](const Word& word) { return word.value == text; });
    };
    if (const auto ufw = find_program(command, "ufw"))
        port =
            *ufw + 3 == words.size() && words[*ufw + 1].value == "allow" ? words.back().value : "";
    if (find_program(command, "firewall-cmd") && !has("--zone=trusted") && !has("--zone=internal"))
        for (const auto& word : words)
            if (word.value.starts_with("--add-port="))
                port = word.value.substr(11);
    if (find_program(command, "iptables") && has("ACCEPT") && !has("-s") && !has("--source") &&
        !has("-i"))
        for (std::size_t i = 0; i + 1 < words.size(); ++i)
            if (words[i].value == "--dport")
                port = words[i + 1].value;
    if (const char* name = port.empty() ? nullptr : dashboard_at(port))
        hits.push_back({command.line,
                        fmt::format("the port of {} is opened to every address", name),
                        "name who may: ufw allow from NETWORK to any port PORT proto tcp, or leave "
                        "it closed and use ssh -L"});
}

/// One of network_security.firewall_rules: whose port, and the line with a source that is all.
struct FirewallRule {
    const char* dashboard = nullptr;
    int open_line = 0;

    void take(std::string_view line, int number) {
        line = trim(line.substr(0, line.find(" #")));
        if (line.starts_with("port:"))
            dashboard = dashboard_at(trim(line.substr(5)));
        if (!line.starts_with("source:"))
            return;
        std::string source(trim(line.substr(7)));
        std::erase_if(source, [](char c) { return c == '"' || c == '\''; });
        for (const std::string_view all : {"0.0.0.0/0", "::/0", "any", "all", "*"})
            open_line = source == all ? number : open_line;
    }
    void finish(RuleHits& hits) const {
        if (dashboard != nullptr && open_line > 0)
            hits.push_back({open_line,
                            fmt::format("the port of {} is opened to every address", dashboard),
                            "name the administrators' network as its source"});
    }
};

void check_rules_of_spec(const Subject& subject, RuleHits& hits) {
    FirewallRule rule;
    for (std::size_t i = 0; i < subject.spec.lines.size(); ++i) {
        std::string_view line = trim(subject.spec.lines[i]);
        if (line.starts_with("- ")) {
            std::exchange(rule, {}).finish(hits);
            line = trim(line.substr(2));
        }
        rule.take(line, static_cast<int>(i) + 1);
    }
    rule.finish(hits);
}

RuleHits dashboard_open(const Subject& subject) {
    RuleHits hits;
    for (const auto& command : subject.script.shell.commands) {
        for (const auto& dashboard : kDashboards)
            check_address(subject, command, dashboard, hits);
        check_published(subject, command, hits);
        check_firewall(command, hits);
    }
    check_rules_of_spec(subject, hits);
    return hits;
}

constexpr std::array<Rule, 3> kAdminRules = {{
    {"scontrol-create-partition", LintSeverity::error, "scontrol create partition",
     "The key is PartitionName=. And what scontrol makes is gone when slurmctld starts anew with "
     "its slurm.conf.",
     "scontrol create PartitionName=NAME Nodes=…, and the same line in slurm.conf",
     create_partition},
    {"slurm-dbd-key", LintSeverity::error, "slurm.conf: a key of slurmdbd.conf",
     "Every program of Slurm refuses the file. And slurm.conf can be read by everybody, "
     "slurmdbd.conf, with the database's password, by slurmdbd alone.",
     "move it to slurmdbd.conf; slurm.conf has AccountingStorageType=accounting_storage/slurmdbd "
     "and AccountingStorageHost",
     slurmdbd_key},
    {"dashboard-open", LintSeverity::warning, "a dashboard's port is open to all",
     "TensorBoard, Prometheus, Ray and MLflow ask nobody for a password, and Jupyter runs what it "
     "is sent: everybody on the network is you.",
     "127.0.0.1, and ssh -L PORT:127.0.0.1:PORT NODE from where the browser is", dashboard_open},
}};

}  // namespace

std::span<const Rule> admin_rules() { return kAdminRules; }

}  // namespace autolaunch::launcher
