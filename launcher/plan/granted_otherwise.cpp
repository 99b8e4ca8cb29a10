#include "plan/granted_otherwise.hpp"

#include "allocation/slurm_time.hpp"
#include "base/environment.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace autolaunch::launcher {

namespace {

std::string note(const std::string& key, const std::string& asked, const std::string& given) {
    return "slurm_config." + key + " is " + asked + ", but this job has " + given +
           ": within an allocation the key changes nothing";
}

// The job's limit, where Slurm tells it (from 23.02 on).
std::optional<std::chrono::seconds> granted_limit(const EnvironmentMap& environment) {
    long long start = 0, end = 0;
    if (!parse_integer(value_of(environment, "SLURM_JOB_START_TIME"), start) ||
        !parse_integer(value_of(environment, "SLURM_JOB_END_TIME"), end) || start <= 0 ||
        end <= start)
        return std::nullopt;
    return std::chrono::seconds(end - start);
}

std::string in_minutes(std::chrono::seconds time) {
    return std::to_string((time.count() + 59) / 60) + " min";
}

}  // namespace

std::vector<std::string> granted_otherwise(const SlurmSpec& asked,
                                           const EnvironmentMap& environment) {
    std::vector<std::string> notes;
    if (value_of(environment, "SLURM_JOB_ID").empty())
        return notes;
    // Of several partitions Slurm takes one.
    const auto compare = [&](const char* key, const std::string& wanted, const char* variable) {
        const std::string given = value_of(environment, variable);
        const auto choices = split(wanted, ',');
        if (!wanted.empty() && !given.empty() &&
            std::find(choices.begin(), choices.end(), given) == choices.end())
            notes.push_back(note(key, wanted, given));
    };
    compare("partition", asked.partition, "SLURM_JOB_PARTITION");
    compare("account", asked.account, "SLURM_JOB_ACCOUNT");
    compare("qos", asked.qos, "SLURM_JOB_QOS");
    compare("reservation", asked.reservation, "SLURM_JOB_RESERVATION");
    compare("nodes", asked.nodes ? std::to_string(*asked.nodes) : "", "SLURM_JOB_NUM_NODES");
    const auto wanted = parse_slurm_time(asked.time_limit);
    const auto given = granted_limit(environment);
    if (wanted && given && in_minutes(*wanted) != in_minutes(*given))
        notes.push_back(note("time_limit", in_minutes(*wanted), in_minutes(*given)));
    return notes;
}

std::optional<std::chrono::seconds> uncompared_time_limit(const SlurmSpec& asked,
                                                          const EnvironmentMap& environment) {
    if (value_of(environment, "SLURM_JOB_ID").empty() || granted_limit(environment))
        return std::nullopt;
    return parse_slurm_time(asked.time_limit);
}

std::string limit_granted_otherwise(std::chrono::seconds asked, const std::string& granted) {
    const auto limit = parse_slurm_time(granted);
    if (limit)
        return in_minutes(*limit) == in_minutes(asked)
                   ? std::string()
                   : note("time_limit", in_minutes(asked), in_minutes(*limit));
    if (granted == "UNLIMITED")
        return note("time_limit", in_minutes(asked), "no limit");
    return "slurm_config.time_limit is " + in_minutes(asked) +
           ", and whether this job has the same is not known: Slurm says it in the environment "
           "from "
           "23.02 on, and squeue, which says it as well, gave no answer";
}

}  // namespace autolaunch::launcher
