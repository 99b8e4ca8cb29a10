#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What the cluster's commands said before a job is submitted. Nothing: no answer.
struct ClusterAnswers {
    std::optional<std::string> config;        ///< scontrol show config
    std::optional<std::string> partitions;    ///< scontrol show partition -o
    std::optional<std::string> reservations;  ///< scontrol show reservation -o
    std::optional<std::string> associations;  ///< sacctmgr -P show assoc, of this user
    std::optional<std::string> qos;           ///< sacctmgr -P show qos
    /// Of jobs that --dependency names: what scontrol says, on both streams.
    std::map<std::string, std::string> jobs = {};
    std::string user;
};

// The questions. Pure.
std::vector<std::string> partitions_question();
std::vector<std::string> associations_question(const std::string& user);
std::vector<std::string> qos_question();

/// "488281M": MiB for memory, a count for all else. Nothing: it is none. Pure.
std::optional<long long> tres_count(std::string text);

/// Value of "NAME = VALUE" of scontrol show config; empty where it is not there. Pure.
std::string config_value(std::string_view config, std::string_view name);

/// One line of scontrol show partition.
struct PartitionFacts {
    std::string name, nodes, preempt_mode, state, allow_accounts, deny_accounts, allow_qos;
    bool is_default = false;
    std::optional<std::chrono::seconds> most_time, default_time;  ///< nothing: no limit, none
    std::optional<long long> most_nodes, fewest_nodes, all_nodes;
};
std::vector<PartitionFacts> parse_partitions(std::string_view answer);

/// Limits of one QoS or association, as sacctmgr names them. A number is of a job where its column
/// says so, of the user else.
struct AccountLimits {
    std::string name;  ///< of the QoS; "account ml" of an association
    std::optional<std::chrono::seconds> most_time;
    struct Most {
        std::string column, tres;  ///< "MaxTRESPU", "gres/gpu"
        long long count = 0;
    };
    std::vector<Most> most;
};
struct AssociationFacts {
    std::string account, partition, default_qos;
    std::vector<std::string> qos;
    AccountLimits limits;
};
std::vector<AccountLimits> parse_qos_limits(std::string_view answer);
std::vector<AssociationFacts> parse_association_limits(std::string_view answer);

/// A maintenance reservation that has not ended.
struct MaintenanceFacts {
    std::string name, nodes;
    std::chrono::system_clock::time_point starts_at, ends_at;
};
/// Reads the time zone.
std::vector<MaintenanceFacts> parse_maintenance(std::string_view answer,
                                                std::chrono::system_clock::time_point now);

}  // namespace autolaunch::launcher
