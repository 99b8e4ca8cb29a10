#include "nccl_env/nccl_env.hpp"

#include "base/text.hpp"
#include "nccl_env/compute_hcas.hpp"
#include "nccl_env/footguns.hpp"
#include "nccl_env/gid_choice.hpp"
#include "nccl_env/hca_filter.hpp"
#include "nccl_env/nccl_settings.hpp"
#include "nccl_env/nccl_variables.hpp"
#include "nccl_env/port_checks.hpp"
#include "nccl_env/roce_addresses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace autolaunch::launcher {
namespace {

struct Situation {
    const NcclInputs& inputs;
    const ComputeHcas& compute;
    EnvironmentMap settings;  // the user's, nccl.conf's and, as they come, ours
};

using Decision = std::optional<VariableChoice>;

Decision debug(const Situation&) {
    return VariableChoice{{}, "WARN", "errors of NCCL are printed, at no cost"};
}

Decision interface_of_rendezvous(const Situation& here) {
    const std::string& interface = here.inputs.rendezvous_interface;
    if (here.inputs.node_count < 2 || interface.empty())
        return std::nullopt;
    return VariableChoice{{}, interface, "this node reaches the head through it"};
}

Decision socket_interface(const Situation& here) {
    auto choice = interface_of_rendezvous(here);
    if (choice)
        choice->value = "=" + choice->value;
    return choice;
}

Decision socket_family(const Situation& here) {
    if (here.inputs.node_count < 2 || !here.inputs.rendezvous_is_ipv6_only)
        return std::nullopt;
    return VariableChoice{{}, "AF_INET6", "the head has no IPv4 address"};
}

Decision ib_hca(const Situation& here) {
    if (here.compute.nccl_list.empty())
        return std::nullopt;
    return VariableChoice{{}, here.compute.nccl_list, here.compute.reason};
}

Decision ib_addr_family(const Situation& here) {
    if (!has_only_ipv6(here.compute.ports))
        return std::nullopt;
    return VariableChoice{{}, "AF_INET6", "RoCE ports have IPv6 addresses only"};
}

Decision ib_addr_range(const Situation& here) {
    const GidRules rules = read_gid_rules(here.settings);
    if (rules.index >= 0)
        return std::nullopt;
    const std::string range = choose_address_range(here.compute.ports, rules);
    if (range.empty())
        return std::nullopt;
    return VariableChoice{{}, range, "a RoCE port has addresses in several subnets"};
}

Decision ib_gid_index(const Situation& here) {
    const GidRules rules = read_gid_rules(here.settings);
    const auto index = repair_gid_index(here.compute.ports, rules);
    if (!index)
        return std::nullopt;
    return VariableChoice{
        {},
        std::to_string(index->index),
        fmt::format("NCCL would take GID {}, which is {}", index->instead_of, index->problem)};
}

// NCCL tries each HCA by itself and falls back; without the attempt all nodes go the same way.
Decision dmabuf_enable(const Situation& here) {
    const auto& hcas = here.compute.hcas;
    const bool all_refuse = std::all_of(hcas.begin(), hcas.end(), [](const Hca* hca) {
        return hca->dmabuf == std::optional(false);
    });
    if (hcas.empty() || !all_refuse || here.inputs.topology.peermem != std::optional(true))
        return std::nullopt;
    return VariableChoice{{}, "0", "no HCA's driver takes dma-buf, and nvidia-peermem is loaded"};
}

struct Rule {
    const char* name;
    Decision (*decide)(const Situation&);
};

// In an order in which later ones may build upon earlier ones.
constexpr Rule kRules[] = {
    {"NCCL_DEBUG", debug},
    {"NCCL_SOCKET_IFNAME", socket_interface},
    {"GLOO_SOCKET_IFNAME", interface_of_rendezvous},
    {"NCCL_SOCKET_FAMILY", socket_family},
    {"NCCL_IB_HCA", ib_hca},
    {"NCCL_IB_ADDR_FAMILY", ib_addr_family},
    {"NCCL_IB_ADDR_RANGE", ib_addr_range},
    {"NCCL_IB_GID_INDEX", ib_gid_index},
    {"NCCL_DMABUF_ENABLE", dmabuf_enable},
};

void keep(const Situation& here, NcclEnvironment& decided) {
    for (const auto& [name, value] : here.inputs.found)
        if (name.starts_with("NCCL_") || find_nccl_variable(name) != nullptr)
            decided.kept.push_back({name, value, "you set it", "environment"});
    for (const VariableChoice& setting : here.inputs.conf.settings)
        if (!here.inputs.found.contains(setting.name) && setting.name.starts_with("NCCL_"))
            decided.kept.push_back(setting);
}

void use_profile(const NcclProfile& profile, Situation& here, NcclEnvironment& decided) {
    for (const VariableChoice& choice : profile.set) {
        if (here.settings.contains(choice.name))
            continue;
        here.settings[choice.name] = choice.value;
        decided.set.push_back(choice);
    }
    for (const VariableChoice& choice : profile.leave)
        if (!here.settings.contains(choice.name))
            decided.left.push_back(choice);
    const bool somebody_set_them =
        std::any_of(profile.leave.begin(), profile.leave.end(),
                    [&](const auto& choice) { return here.settings.contains(choice.name); });
    if (here.inputs.node_count > 1 && !somebody_set_them)
        decided.warnings.insert(decided.warnings.end(), profile.required_text.begin(),
                                profile.required_text.end());
}

bool is_left(const NcclEnvironment& decided, std::string_view name) {
    return std::any_of(decided.left.begin(), decided.left.end(),
                       [&](const auto& choice) { return choice.name == name; });
}

void use_rules(Situation& here, NcclEnvironment& decided) {
    for (const Rule& rule : kRules) {
        if (here.settings.contains(rule.name) || is_left(decided, rule.name))
            continue;
        auto choice = rule.decide(here);
        if (!choice)
            continue;
        choice->name = rule.name;
        choice->source = "rule";
        here.settings[choice->name] = choice->value;
        decided.set.push_back(std::move(*choice));
    }
}

bool in_scope(NcclScope scope, const Situation& here) {
    const auto& ports = here.compute.ports;
    switch (scope) {
        case NcclScope::everywhere:
            return true;
        case NcclScope::with_hcas:
            return !ports.empty();
        case NcclScope::with_roce:
            return std::any_of(ports.begin(), ports.end(),
                               [](const auto* port) { return port->link_layer == "Ethernet"; });
        case NcclScope::many_nodes:
            return here.inputs.node_count > 1;
    }
    return false;
}

void tell_what_is_left(const Situation& here, NcclEnvironment& decided) {
    for (const NcclVariable& variable : nccl_variables()) {
        const std::string name(variable.name);
        if (!variable.often_set || !in_scope(variable.scope, here) || here.settings.contains(name))
            continue;
        if (!is_left(decided, name))
            decided.left.push_back({name, std::string(variable.default_value),
                                    std::string(variable.reason), std::string(variable.source)});
    }
}

// The user's list, where it takes any, else ours.
std::vector<std::string> hcas_in_use(const Situation& here) {
    std::vector<std::string> names;
    if (const auto* value = find_setting(here.settings, "NCCL_IB_HCA"))
        names = hcas_taken(here.inputs.topology, *value);
    if (names.empty())
        for (const Hca* hca : here.compute.hcas)
            names.push_back(hca->name);
    return names;
}

// Interfaces over which this node could reach the head.
std::vector<std::string> possible_interfaces(const NodeTopology& topology) {
    std::vector<std::string> names;
    for (const NetworkInterface& interface : topology.network_interfaces) {
        const bool has_address = topology.source != kThisMachine || !interface.addresses.empty();
        if (interface.is_running && has_address && interface.name != "lo")
            names.push_back(interface.name);
    }
    return names;
}

// Both are one rule's: the interface that has the address by which this node reaches the head.
void tell_what_waits(const Situation& here, NcclEnvironment& decided) {
    if (here.inputs.node_count < 2 || !here.inputs.rendezvous_interface.empty())
        return;
    constexpr std::size_t kShown = 6;
    const auto names = possible_interfaces(here.inputs.topology);
    for (const auto& [name, sign] :
         {std::pair{"NCCL_SOCKET_IFNAME", "="}, {"GLOO_SOCKET_IFNAME", ""}}) {
        if (here.settings.contains(name) || is_left(decided, name))
            continue;
        VariableChoice choice{name, "at start",
                              "the interface that reaches the head, on each node its own", "rule"};
        if (names.size() == 1)
            choice.value = fmt::format("{}{} at start", sign, names.front());
        else if (!names.empty() && names.size() <= kShown)
            choice.reason += ": here one of " + join(names, ", ");
        decided.at_start.push_back(std::move(choice));
    }
}

}  // namespace

NcclEnvironment decide_nccl_environment(const NcclInputs& inputs) {
    NcclEnvironment decided;
    if (!inputs.has_gpus || inputs.topology.gpus.empty())
        return decided;
    const ComputeHcas compute = choose_compute_hcas(inputs.topology);
    decided.excluded_hcas = compute.excluded;

    Situation here{inputs, compute, inputs.found};
    for (const VariableChoice& setting : inputs.conf.settings)
        here.settings.try_emplace(setting.name, setting.value);
    decided.compute_hcas = hcas_in_use(here);
    decided.warnings = find_nccl_footguns(inputs.topology, compute, here.settings);
    decided.warnings.insert(decided.warnings.end(), inputs.conf.warnings.begin(),
                            inputs.conf.warnings.end());
    decided.warnings.insert(decided.warnings.end(), inputs.warnings.begin(), inputs.warnings.end());
    if (!here.settings.contains("NCCL_IB_HCA"))
        decided.warnings.insert(decided.warnings.end(), compute.warnings.begin(),
                                compute.warnings.end());

    keep(here, decided);
    if (inputs.manage) {
        if (inputs.profile)
            decided.profile = inputs.profile->name;
        if (inputs.profile)
            use_profile(*inputs.profile, here, decided);
        use_rules(here, decided);
        tell_what_is_left(here, decided);
        tell_what_waits(here, decided);
    }
    for (std::string& warning : check_compute_ports(compute, here.settings))
        decided.warnings.push_back(std::move(warning));
    return decided;
}

}  // namespace autolaunch::launcher
