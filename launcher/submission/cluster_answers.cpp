#include "submission/cluster_answers.hpp"

#include "allocation/slurm_time.hpp"
#include "base/text.hpp"
#include "stopping/scontrol_line.hpp"

#include <algorithm>
#include <cctype>

namespace autolaunch::launcher {

namespace {

using Row = std::map<std::string, std::string>;

std::string value_in(const Row& row, const char* name) {
    const auto found = row.find(name);
    return found == row.end() ? std::string() : found->second;
}

/// Rows of "a|b|c" by the names of their columns, in the first line.
std::vector<Row> rows_of(std::string_view answer) {
    std::vector<Row> rows;
    const auto lines = split(answer, '\n');
    const auto names = split(lines[0], '|');
    for (std::size_t i = 1; i < lines.size(); ++i) {
        if (lines[i].empty())
            continue;
        const auto cells = split(lines[i], '|');
        Row& row = rows.emplace_back();
        for (std::size_t k = 0; k < cells.size() && k < names.size(); ++k)
            row[names[k]] = cells[k];
    }
    return rows;
}

/// "UNLIMITED", "NONE" and what is no number: nothing.
std::optional<long long> number_in(const std::string& text) {
    long long value = 0;
    return parse_integer(text, value) ? std::optional(value) : std::nullopt;
}

void add_most(const Row& row, const char* column, AccountLimits& limits) {
    for (const std::string& one : split(value_in(row, column), ',')) {
        const std::size_t equals = one.find('=');
        const auto count =
            equals == std::string::npos ? std::nullopt : tres_count(one.substr(equals + 1));
        if (count)
            limits.most.push_back({column, one.substr(0, equals), *count});
    }
}

AccountLimits limits_of(const Row& row, std::string name,
                        std::initializer_list<const char*> columns) {
    AccountLimits limits;
    limits.name = std::move(name);
    limits.most_time = parse_slurm_time(value_in(row, "MaxWall"));
    for (const char* column : columns)
        add_most(row, column, limits);
    return limits;
}

std::vector<std::string> words_of(const std::string& list) {
    auto words = split(list, ',');
    std::erase(words, "");
    return words;
}

}  // namespace

std::optional<long long> tres_count(std::string text) {
    long long factor = 1;
    if (!text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) != 0) {
        const auto unit = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
        const std::size_t place = std::string_view("MGTP").find(unit);
        if (place == std::string_view::npos)
            return std::nullopt;
        factor = 1LL << (10 * place);
        text.pop_back();
    }
    const auto number = number_in(text.substr(0, text.find('.')));
    constexpr long long kMost = 1'000'000'000'000LL;
    if (!number || *number < 0 || *number > kMost / factor)
        return std::nullopt;
    return *number * factor;
}

std::vector<std::string> partitions_question() { return {"scontrol", "show", "partition", "-o"}; }

std::vector<std::string> associations_question(const std::string& user) {
    return {"sacctmgr",
            "-P",
            "show",
            "assoc",
            "where",
            "user=" + user,
            "format=Account,Partition,DefaultQOS,QOS,MaxWall,MaxTRES,GrpTRES"};
}

std::vector<std::string> qos_question() {
    return {"sacctmgr", "-P", "show", "qos", "format=Name,MaxWall,MaxTRES,MaxTRESPU,GrpTRES"};
}

std::string config_value(std::string_view config, std::string_view name) {
    while (!config.empty()) {
        const std::string_view line = config.substr(0, config.find('\n'));
        config.remove_prefix(std::min(line.size() + 1, config.size()));
        const std::size_t equals = line.find('=');
        if (equals != std::string_view::npos && trim(line.substr(0, equals)) == name)
            return std::string(trim(line.substr(equals + 1)));
    }
    return {};
}

std::vector<PartitionFacts> parse_partitions(std::string_view answer) {
    std::vector<PartitionFacts> partitions;
    for (const std::string& line : split(answer, '\n')) {
        const auto field = [&](const char* name) { return scontrol_field(line, name); };
        PartitionFacts facts;
        facts.name = field("PartitionName");
        if (facts.name.empty())
            continue;
        facts.nodes = field("Nodes");
        facts.preempt_mode = field("PreemptMode");
        facts.state = field("State");
        facts.allow_accounts = field("AllowAccounts");
        facts.deny_accounts = field("DenyAccounts");
        facts.allow_qos = field("AllowQos");
        facts.is_default = field("Default") == "YES";
        facts.most_time = parse_slurm_time(field("MaxTime"));
        facts.default_time = parse_slurm_time(field("DefaultTime"));
        facts.most_nodes = number_in(field("MaxNodes"));
        facts.fewest_nodes = number_in(field("MinNodes"));
        facts.all_nodes = number_in(field("TotalNodes"));
        partitions.push_back(std::move(facts));
    }
    return partitions;
}

std::vector<AccountLimits> parse_qos_limits(std::string_view answer) {
    std::vector<AccountLimits> all;
    for (const Row& row : rows_of(answer))
        all.push_back(limits_of(row, value_in(row, "Name"), {"MaxTRES", "MaxTRESPU", "GrpTRES"}));
    return all;
}

std::vector<AssociationFacts> parse_association_limits(std::string_view answer) {
    std::vector<AssociationFacts> all;
    for (const Row& row : rows_of(answer)) {
        AssociationFacts facts;
        facts.account = value_in(row, "Account");
        facts.partition = value_in(row, "Partition");
        facts.default_qos = value_in(row, "Def QOS");
        facts.qos = words_of(value_in(row, "QOS"));
        facts.limits = limits_of(row, "account " + facts.account, {"MaxTRES", "GrpTRES"});
        all.push_back(std::move(facts));
    }
    return all;
}

std::vector<MaintenanceFacts> parse_maintenance(std::string_view answer,
                                                std::chrono::system_clock::time_point now) {
    std::vector<MaintenanceFacts> all;
    for (const std::string& line : split(answer, '\n')) {
        const auto flags = split(scontrol_field(line, "Flags"), ',');
        const auto starts = scontrol_time(scontrol_field(line, "StartTime"));
        const auto ends = scontrol_time(scontrol_field(line, "EndTime"));
        if (std::find(flags.begin(), flags.end(), "MAINT") == flags.end() || !starts || !ends ||
            *ends <= now)
            continue;
        all.push_back({scontrol_field(line, "ReservationName"), scontrol_field(line, "Nodes"),
                       *starts, *ends});
    }
    return all;
}

}  // namespace autolaunch::launcher
