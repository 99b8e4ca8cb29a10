#include "policy/policy_diff.hpp"

#include "allocation/slurm_command.hpp"
#include "allocation/slurm_time.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "site/site_facts.hpp"

#include <algorithm>
#include <cctype>
#include <limits>

namespace autolaunch::launcher {

namespace {

using Differences = std::vector<PolicyDifference>;

std::set<std::string> words_of(const std::string& list) {
    std::set<std::string> words;
    for (const std::string& word : split(list, ','))
        if (!trim(word).empty())
            words.emplace(trim(word));
    return words;
}

// "488281M", "512G": MiB. A number without a unit is a count.
std::int64_t tres_count(std::string text) {
    std::int64_t factor = 1;
    if (!text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) != 0) {
        const char unit = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
        factor = unit == 'G' ? 1024 : unit == 'T' ? 1024 * 1024 : unit == 'P' ? 1 << 30 : 1;
        text.pop_back();
    }
    long long number = 0;
    parse_integer(text.substr(0, text.find('.')), number);
    std::int64_t count = 0;  // more than 63 bits hold is as good as no limit
    return __builtin_mul_overflow(number, factor, &count) ? std::numeric_limits<std::int64_t>::max()
                                                          : count;
}

// Rows of "a|b|c" by the names of their columns.
std::vector<std::map<std::string, std::string>> rows_of(std::string_view answer) {
    std::vector<std::map<std::string, std::string>> rows;
    const auto lines = split(answer, '\n');
    const auto names = split(lines.front(), '|');
    for (std::size_t i = 1; i < lines.size(); ++i) {
        if (lines[i].empty())
            continue;
        const auto cells = split(lines[i], '|');
        auto& row = rows.emplace_back();
        for (std::size_t k = 0; k < cells.size() && k < names.size(); ++k)
            row[names[k]] = cells[k];
    }
    return rows;
}

std::string number_text(const std::optional<std::int64_t>& number, const char* unit) {
    return number ? std::to_string(*number) + unit : std::string("no limit");
}

std::string qos_fix(const SlurmRole& role, const std::string& setting) {
    return "sacctmgr -i modify qos where name=" + role.name + " set " + setting;
}

void compare_limit(const SlurmRole& role, const char* limit,
                   const std::optional<std::int64_t>& wanted, const std::string& place,
                   const std::optional<std::int64_t>& found, const char* unit, const char* column,
                   const std::string& setting, Differences& differences) {
    if (wanted == found)
        return;
    differences.push_back(
        {std::string(limit) + " of " + role.name,
         number_text(wanted, unit) + " (" + (place.empty() ? role.place : place) + ")",
         number_text(found, unit) + " (QoS " + role.name + ", " + column + ")",
         qos_fix(role, setting)});
}

std::optional<std::int64_t> most_of(const LiveQos& qos, const char* tres) {
    const auto found = qos.most.find(tres);
    return found == qos.most.end() ? std::nullopt : std::optional(found->second);
}

void compare_qos(const SlurmRole& role, const LiveSlurm& live, Differences& differences) {
    const auto found = live.qos.find(role.name);
    if (found == live.qos.end()) {
        differences.push_back({"the QoS of " + role.name, "a role (" + role.place + ")",
                               "no QoS of that name", "autolaunch policy render slurm"});
        return;
    }
    const LiveQos& qos = found->second;
    compare_limit(
        role, "max_gpus", role.gpus, role.gpus_place, most_of(qos, "gres/gpu"), "", "MaxTRESPU",
        "MaxTRESPerUser=gres/gpu=" + (role.gpus ? std::to_string(*role.gpus) : std::string("-1")),
        differences);
    compare_limit(role, "max_memory", role.memory_mib, role.memory_place, most_of(qos, "mem"),
                  " MiB", "MaxTRESPU",
                  "MaxTRESPerUser=mem=" +
                      (role.memory_mib ? std::to_string(*role.memory_mib) : std::string("-1")),
                  differences);
    compare_limit(role, "max_time", role.minutes, role.minutes_place, qos.minutes, " minutes",
                  "MaxWall", "MaxWall=" + max_wall(role), differences);
    if (!qos.flags.contains("DenyOnLimit"))
        differences.push_back({"what becomes of a job of " + role.name + " that is too large",
                               "refused at submission", "left pending (no flag DenyOnLimit)",
                               qos_fix(role, "Flags+=DenyOnLimit")});
}

void compare_associations(const SlurmRole& role, const LiveSlurm& live, Differences& differences) {
    bool has_account = false;
    std::set<std::string> users;
    for (const LiveAssociation& association : live.associations) {
        if (association.account != role.name)
            continue;
        const bool own = association.user.empty();
        has_account = has_account || own;
        if (!own)
            users.insert(association.user);
        if (association.qos == std::set<std::string>{role.name})
            continue;
        const std::vector<std::string> words(association.qos.begin(), association.qos.end());
        const std::string who =
            own ? "account " + role.name : association.user + " in account " + role.name;
        differences.push_back(
            {"the QoS of " + who, role.name + " alone (" + role.place + ")",
             words.empty() ? "none" : join(words, ", "),
             "sacctmgr -i modify " +
                 (own ? "account where name=" + role.name
                      : "user where name=" + association.user + " account=" + role.name) +
                 " set QOS=" + role.name});
    }
    if (!has_account)
        differences.push_back({"the account of " + role.name, "a role (" + role.place + ")",
                               "no account of that name", "autolaunch policy render slurm"});
    for (const std::string& member : role.members)
        if (!users.contains(member) && has_account)
            differences.push_back({member + " in account " + role.name,
                                   "a member of the group (" + role.place + ")", "no association",
                                   "sacctmgr -i add user " + member + " account=" + role.name});
    for (const std::string& user : users)
        if (!role.members.empty() &&
            std::find(role.members.begin(), role.members.end(), user) == role.members.end())
            differences.push_back(
                {user + " in account " + role.name, "no member of the group (" + role.place + ")",
                 "an association",
                 "sacctmgr -i delete user where name=" + user + " account=" + role.name});
}

void compare_config(const LiveSlurm& live, Differences& differences) {
    const auto value = [&](const char* key) {
        const auto found = live.config.find(key);
        return found == live.config.end() ? std::string() : found->second;
    };
    const std::string enforced = value("AccountingStorageEnforce");
    const auto words = words_of(enforced);
    if (!words.contains("associations") || !words.contains("limits") || !words.contains("qos"))
        differences.push_back({"whether slurmctld applies limits", "they are to hold",
                               "AccountingStorageEnforce=" + enforced,
                               "slurm.conf: AccountingStorageEnforce=associations,limits,qos"});
    const std::string counted = value("AccountingStorageTRES");
    if (!words_of(counted).contains("gres/gpu"))
        differences.push_back({"whether GPUs are counted", "max_gpus is to hold",
                               "AccountingStorageTRES=" + counted,
                               "slurm.conf: AccountingStorageTRES=gres/gpu"});
}

std::string ask(std::vector<std::string> argv, const Deadline& deadline) {
    const std::string command = join(argv, " ");
    std::string answer = SlurmCommand(std::move(argv)).wait(deadline);
    if (answer.empty())
        throw ExitError(exit_code::kUnavailable, ErrorCode::system, command + " gave no answer",
                        "run it by hand: is slurmdbd there, and may this user ask it? An answer of "
                        "more than 256 KiB is not taken either");
    return answer;
}

}  // namespace

std::map<std::string, LiveQos> parse_qos(std::string_view answer) {
    std::map<std::string, LiveQos> all;
    for (auto& row : rows_of(answer)) {
        LiveQos qos;
        for (const std::string& tres : words_of(row["MaxTRESPU"])) {
            const std::size_t equals = tres.rfind('=');
            if (equals != std::string::npos)
                qos.most[tres.substr(0, equals)] = tres_count(tres.substr(equals + 1));
        }
        if (const auto wall = parse_slurm_time(row["MaxWall"]))
            qos.minutes = wall->count() / 60;
        qos.flags = words_of(row["Flags"]);
        all.emplace(row["Name"], std::move(qos));
    }
    return all;
}

std::vector<LiveAssociation> parse_associations(std::string_view answer) {
    std::vector<LiveAssociation> associations;
    for (auto& row : rows_of(answer))
        associations.push_back({row["Account"], row["User"], words_of(row["QOS"])});
    return associations;
}

LiveSlurm read_live_slurm(const std::vector<SlurmRole>& roles, const Deadline& deadline) {
    LiveSlurm live;
    live.config = parse_slurm_config(ask({"scontrol", "show", "config"}, deadline));
    live.qos = parse_qos(
        ask({"sacctmgr", "-P", "show", "qos", "format=Name,MaxTRESPU,MaxWall,Flags"}, deadline));
    for (const SlurmRole& role : roles)
        for (LiveAssociation& association :
             parse_associations(ask({"sacctmgr", "-P", "show", "assoc", "where",
                                     "cluster=" + live.config["ClusterName"],
                                     "account=" + role.name, "format=Account,User,QOS"},
                                    deadline)))
            live.associations.push_back(std::move(association));
    return live;
}

std::vector<PolicyDifference> compare_policy(const std::vector<SlurmRole>& roles,
                                             const LiveSlurm& live) {
    Differences differences;
    compare_config(live, differences);
    for (const SlurmRole& role : roles) {
        compare_qos(role, live, differences);
        compare_associations(role, live, differences);
    }
    return differences;
}

}  // namespace autolaunch::launcher
