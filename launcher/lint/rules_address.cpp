// Where ranks are told to meet: MASTER_ADDR, MASTER_PORT and torchrun's rendezvous.

#include "base/text.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool is_torch(const Launch& launch) {
    return launch.tool == Tool::torchrun || launch.tool == Tool::torch_launch;
}

bool by_torchrun(const Subject& subject) {
    return std::any_of(subject.launches.begin(), subject.launches.end(), is_torch);
}
bool by_autolaunch(const Subject& subject) {
    return std::any_of(subject.launches.begin(), subject.launches.end(),
                       [](const Launch& launch) { return launch.tool == Tool::autolaunch; });
}

/// HOST of HOST:PORT and [HOST]:PORT.
std::string host_of(const std::string& endpoint) {
    if (endpoint.starts_with('['))
        return endpoint.substr(1, endpoint.find(']') - 1);
    return endpoint.substr(0, endpoint.rfind(':'));
}

bool is_local(const std::string& address) {
    return address == "localhost" || address == "::1" || address.starts_with("127.");
}

/// MASTER_ADDR with the first node for its value; for autolaunch alone it is left out.
Edits first_node_instead(const Subject& subject, const EnvironmentSetting& setting) {
    if (subject.kind == FileKind::spec || (by_autolaunch(subject) && !by_torchrun(subject)))
        return remove_assignment(subject.source, setting.line, setting.name);
    return replace_assignment(subject.source, setting.line, setting.name, kFirstNode);
}

/// HOST of --rdzv-endpoint=HOST:PORT and the like becomes the first node.
Edits first_node_instead(const Subject& subject, const Launch& launch, const char* option,
                         const std::string& host) {
    const Word* word = launch.value_word(option);
    const std::size_t at = word == nullptr ? std::string::npos : word->raw.rfind(host);
    if (at == std::string::npos || host.empty())
        return {};
    std::string raw = word->raw;
    raw.replace(at, host.size(), kFirstNode);
    return replace_word(subject.source, word->line, word->raw, raw);
}

RuleHits rdzv_host_list(const Subject& subject) {
    RuleHits hits;
    const auto complain = [&hits](int line, const std::string& what, Edits edits) {
        hits.push_back({line,
                        what + " is the whole node list, in Slurm's short form, and no address",
                        {},
                        std::move(edits)});
    };
    const auto whole_list = [](const std::string& value) {
        for (const char* name :
             {"$SLURM_NODELIST", "${SLURM_NODELIST}", "$SLURM_JOB_NODELIST",
              "${SLURM_JOB_NODELIST}", "$SLURM_STEP_NODELIST", "${SLURM_STEP_NODELIST}"})
            if (value.starts_with(name))
                return true;
        return false;
    };
    for (const auto& setting : subject.environment)
        if (setting.name == "MASTER_ADDR" && whole_list(setting.value))
            complain(setting.line, setting.name, first_node_instead(subject, setting));
    for (const auto& launch : subject.launches)
        for (const char* name : {"--rdzv-endpoint", "--master-addr"})
            if (const auto value = launch.option(name, subject.script); value && whole_list(*value))
                complain(
                    launch.line, name,
                    first_node_instead(subject, launch, name, value->substr(0, value->find(':'))));
    return hits;
}

/// --master-addr=A becomes --rdzv-backend=c10d --rdzv-endpoint=A.
Edits as_c10d(const Subject& subject, const Launch& launch) {
    const Word* address = launch.option_word("--master-addr");
    if (address == nullptr || launch.option_word("--master-port") != nullptr ||
        launch.option_word("--rdzv-backend") != nullptr)
        return {};
    const std::size_t equals = address->raw.find('=');
    return equals == std::string::npos ? Edits{}
                                       : replace_word(subject.source, address->line, address->raw,
                                                      "--rdzv-backend=c10d --rdzv-endpoint=" +
                                                          address->raw.substr(equals + 1));
}

RuleHits rdzv_node_rank(const Subject& subject) {
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        const auto backend = launch.option("--rdzv-backend", subject.script);
        const auto machines = nodes_of(launch, subject.script);
        const bool fixed = !backend || *backend == "static";
        if (!is_torch(launch) || !launch.by_srun || !fixed || !machines || *machines < 2 ||
            launch.has_unknown_options())
            continue;
        if (launch.option_word("--node-rank") != nullptr ||
            launch.option_word("--standalone") != nullptr)
            continue;
        const bool by_environment = std::any_of(
            subject.environment.begin(), subject.environment.end(), [](const auto& setting) {
                return setting.name == "PET_RDZV_BACKEND" || setting.name == "PET_NODE_RANK";
            });
        if (!by_environment)
            hits.push_back(
                {launch.line,
                 "static rendezvous without --node-rank: every node takes itself for node 0",
                 {},
                 as_c10d(subject, launch)});
    }
    return hits;
}

bool is_written_out(const std::string& host) {
    return !host.empty() && host.find_first_of("$`") == std::string::npos && !is_local(host) &&
           host != "0.0.0.0";
}

RuleHits fixed_host(const Subject& subject) {
    RuleHits hits;
    const auto complain = [&hits](int line, const std::string& name, const std::string& host,
                                  Edits edits) {
        hits.push_back({line, fmt::format("{} is always {}", name, host), {}, std::move(edits)});
    };
    if (subject.script.is_batch && subject.script.has("nodelist"))
        return hits;  // then the host is part of the job
    if (subject.kind == FileKind::script && !subject.script.is_batch)
        return hits;
    for (const auto& setting : subject.environment)
        if (setting.name == "MASTER_ADDR" && setting.literal && is_written_out(setting.value))
            complain(setting.line, setting.name, setting.value,
                     first_node_instead(subject, setting));
    for (const auto& launch : subject.launches)
        for (const char* name : {"--rdzv-endpoint", "--master-addr"})
            if (const auto value = launch.option(name, subject.script))
                if (const std::string host = host_of(*value); is_written_out(host))
                    complain(launch.line, name, host,
                             first_node_instead(subject, launch, name, host));
    if (!subject.spec.readable() || !subject.many_nodes())
        return hits;
    const std::string& address = subject.spec.result.spec.rendezvous.address;
    const int line = subject.spec.line_of("rendezvous.address");
    if (is_written_out(address))
        complain(line, "rendezvous.address", address, remove_yaml_line(subject.source, line));
    return hits;
}

constexpr const char* kPortOfJob = "$((20000 + SLURM_JOB_ID % 10000))";

/// `port` with its colon, at the end of --rdzv-endpoint=HOST:PORT.
Edits port_of_job_instead(const Subject& subject, const Launch& launch, const std::string& port) {
    const Word* word = launch.value_word("--rdzv-endpoint");
    if (word == nullptr)
        return {};
    const std::string end = word->raw.ends_with('"') ? "\"" : "";
    if (!word->raw.ends_with(port + end))
        return {};
    const std::size_t kept = word->raw.size() - port.size() - end.size() + 1;
    return replace_word(subject.source, word->line, word->raw,
                        word->raw.substr(0, kept) + kPortOfJob + end);
}

RuleHits fixed_port(const Subject& subject) {
    RuleHits hits;
    const auto check = [&hits](int line, const std::string& name, const std::string& port,
                               const std::function<Edits()>& edits) {
        const auto number = whole_number(port);
        if (number && *number > 0)
            hits.push_back({line,
                            fmt::format("{} is always {}: a second job on the node cannot open it",
                                        name, *number),
                            {},
                            edits()});
    };
    const bool left_out = by_autolaunch(subject) && !by_torchrun(subject);
    if (subject.exclusive() || (subject.kind == FileKind::script && !subject.script.is_batch))
        return hits;
    for (const auto& setting : subject.environment)
        if (setting.name == "MASTER_PORT" && setting.literal)
            check(setting.line, setting.name, setting.value, [&] {
                return left_out || subject.kind == FileKind::spec
                           ? remove_assignment(subject.source, setting.line, setting.name)
                           : replace_assignment(subject.source, setting.line, setting.name,
                                                kPortOfJob);
            });
    for (const auto& launch : subject.launches) {
        if (launch.tool == Tool::python)
            continue;
        const auto of_option = [&](const char* name) {
            const Word* word = launch.option_word(name);
            const auto value = launch.option(name, subject.script);
            return word != nullptr && value ? *value : std::string();
        };
        // A variable that is checked above, or computed, is not written out here.
        const auto uses_setting = [&](const char* name) {
            const Word* word = launch.value_word(name);
            return word != nullptr && word->raw.find("MASTER_PORT") != std::string::npos;
        };
        if (!uses_setting("--master-port"))
            check(launch.line, "--master-port", of_option("--master-port"),
                  [&] { return set_tool_option(subject, launch, "--master-port", kPortOfJob); });
        const std::string endpoint = of_option("--rdzv-endpoint");
        if (const std::size_t colon = endpoint.rfind(':');
            colon != std::string::npos && !uses_setting("--rdzv-endpoint"))
            check(launch.line, "the port of --rdzv-endpoint", endpoint.substr(colon + 1),
                  [&] { return port_of_job_instead(subject, launch, endpoint.substr(colon)); });
    }
    if (subject.spec.readable() && subject.spec.result.spec.rendezvous.port > 0)
        check(subject.spec.line_of("rendezvous.port"), "rendezvous.port",
              std::to_string(subject.spec.result.spec.rendezvous.port), [&] {
                  return remove_yaml_line(subject.source, subject.spec.line_of("rendezvous.port"));
              });
    return hits;
}

RuleHits local_master(const Subject& subject) {
    RuleHits hits;
    if (!subject.many_nodes())
        return hits;
    for (const auto& setting : subject.environment)
        if (setting.name == "MASTER_ADDR" && is_local(setting.value))
            hits.push_back({setting.line,
                            fmt::format("MASTER_ADDR={} on {} nodes: each node waits for itself",
                                        setting.value, subject.nodes()),
                            {},
                            first_node_instead(subject, setting)});
    for (const auto& launch : subject.launches)
        for (const char* name : {"--rdzv-endpoint", "--master-addr"}) {
            const auto value = launch.option(name, subject.script);
            const Word* word = launch.value_word(name);
            if (!value || word == nullptr || word->raw.find("MASTER_ADDR") != std::string::npos)
                continue;
            if (is_local(host_of(*value)))
                hits.push_back({launch.line,
                                fmt::format("{} is {} on {} nodes: each node waits for itself",
                                            name, *value, subject.nodes()),
                                {},
                                first_node_instead(subject, launch, name, host_of(*value))});
            // In single quotes or escaped, each task would ask for its own name.
            const bool asks = value->find("hostname") != std::string::npos &&
                              value->find("scontrol") == std::string::npos;
            if (asks && launch.inner_shell && word->expansions.empty())
                hits.push_back(
                    {launch.line, fmt::format("{} asks each task for its own host name", name)});
        }
    if (subject.spec.readable() && is_local(subject.spec.result.spec.rendezvous.address))
        hits.push_back(
            {subject.spec.line_of("rendezvous.address"),
             "rendezvous.address is this machine on every node",
             {},
             remove_yaml_line(subject.source, subject.spec.line_of("rendezvous.address"))});
    return hits;
}

RuleHits by_scontrol(const Subject& subject) {
    RuleHits hits;
    if (!by_autolaunch(subject) || by_torchrun(subject))
        return hits;
    for (const auto& setting : subject.environment)
        if (setting.name == "MASTER_ADDR" && setting.value.find("scontrol") != std::string::npos)
            hits.push_back(
                {setting.line,
                 "MASTER_ADDR is looked up with scontrol, and autolaunch does not need it",
                 {},
                 remove_assignment(subject.source, setting.line, setting.name)});
    return hits;
}

constexpr std::array<Rule, 6> kAddressRules = {{
    {"rdzv-host-list", LintSeverity::error, "the rendezvous address is a whole node list",
     "SLURM_JOB_NODELIST is a list such as node[01-04], which no resolver knows.",
     "leave it out: autolaunch finds the first node by itself; or scontrol show hostnames "
     "\"$SLURM_JOB_NODELIST\" | head -n1",
     rdzv_host_list},
    {"rdzv-node-rank", LintSeverity::error,
     "torchrun's static rendezvous on several nodes without --node-rank",
     "static is torchrun's default, and node 0 is its default node rank.",
     "--rdzv-backend=c10d, or srun autolaunch, which needs neither", rdzv_node_rank},
    {"fixed-host", LintSeverity::warning, "the rendezvous address is one machine's name",
     "The next job gets other nodes, and then its ranks wait for a machine that is not theirs.",
     "leave it out, or take the first node of the job", fixed_host},
    {"fixed-port", LintSeverity::warning, "a fixed port on nodes that may be shared",
     "Two jobs on one node collide; worse, ranks may join the other job's store.",
     "leave it out: autolaunch's ports never collide; or ask for --exclusive, or take one by the "
     "job's number: $((20000 + SLURM_JOB_ID % 10000))",
     fixed_port},
    {"local-master", LintSeverity::error, "MASTER_ADDR is localhost in a job of several nodes",
     "On every node it names that node, so no node finds the others.",
     "leave it out, or take the first node of the job", local_master},
    {"master-from-scontrol", LintSeverity::info,
     "MASTER_ADDR by scontrol, where autolaunch finds it",
     "It is right, and not needed: autolaunch expands the node list itself and sets MASTER_ADDR "
     "for the ranks.",
     "remove the line", by_scontrol},
}};

}  // namespace

std::span<const Rule> address_rules() { return kAddressRules; }

}  // namespace autolaunch::launcher
