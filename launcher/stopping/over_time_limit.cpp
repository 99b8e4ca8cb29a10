#include "stopping/over_time_limit.hpp"

#include "base/text.hpp"
#include "stopping/scontrol_line.hpp"

#include <algorithm>

namespace autolaunch::launcher {

namespace {

using std::chrono::minutes;

// "NONE" is no number; neither is what a later Slurm may write.
std::optional<minutes> parse_over_time(std::string_view text) {
    if (text == "UNLIMITED" || text == "INFINITE")
        return kEndlessOverTime;
    long long number = 0;
    if (!parse_integer(std::string(text.substr(0, text.find(' '))), number) || number < 0 ||
        number > kEndlessOverTime.count())
        return std::nullopt;
    return minutes(number);
}

std::string_view take_line(std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
}

}  // namespace

std::vector<std::string> partition_question(const std::string& name) {
    return {"scontrol", "show", "partition", "-o", name};
}

std::vector<std::string> config_question() { return {"scontrol", "show", "config"}; }

std::optional<minutes> partition_over_time(std::string_view answer, const std::string& name) {
    while (!answer.empty()) {
        const std::string_view line = take_line(answer);
        if (scontrol_field(line, "PartitionName") == name)
            return parse_over_time(scontrol_field(line, "OverTimeLimit"));
    }
    return std::nullopt;
}

// "OverTimeLimit           = 2 min"
std::optional<minutes> cluster_over_time(std::string_view config) {
    while (!config.empty()) {
        const std::string_view line = take_line(config);
        const std::size_t equals = line.find('=');
        if (equals != std::string_view::npos && trim(line.substr(0, equals)) == "OverTimeLimit")
            return parse_over_time(trim(line.substr(equals + 1)));
    }
    return std::nullopt;
}

}  // namespace autolaunch::launcher
