#include "site/site_facts.hpp"

#include "allocation/slurm_command.hpp"
#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostFactBytes = std::size_t{64} << 10;

std::optional<std::string> text_of(const char* path) {
    try {
        return read_regular_file(path, kMostFactBytes);
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::optional<bool> folder_is_there(const std::string& path) {
    try {
        return is_folder(path);
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

SiteFacts read_node_facts() {
    SiteFacts facts;
    facts.swaps = text_of("/proc/swaps");
    facts.overcommit = text_of("/proc/sys/vm/overcommit_memory");
    facts.panic_on_oom = text_of("/proc/sys/vm/panic_on_oom");
    facts.krb5_conf = text_of("/etc/krb5.conf");
    facts.has_folder = folder_is_there;
    return facts;
}

void ask_slurm(SiteFacts& facts, const Deadline& deadline) {
    const std::string answer = SlurmCommand({"scontrol", "show", "config"}).wait(deadline);
    if (answer.empty())
        facts.why_no_slurm = "scontrol show config gave no answer here";
    else
        facts.slurm = parse_slurm_config(answer);
}

std::map<std::string, std::string> parse_slurm_config(std::string_view answer) {
    std::map<std::string, std::string> config;
    for (const std::string& line : split(answer, '\n')) {
        const std::size_t equals = line.find(" = ");
        if (equals != std::string::npos)
            config.emplace(trim(line.substr(0, equals)), trim(line.substr(equals + 3)));
    }
    return config;
}

}  // namespace autolaunch::launcher
