#include "allocation/slurm_conf.hpp"

#include "allocation/adapters.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>

namespace autolaunch::launcher {

std::chrono::seconds kill_wait_in(std::string_view slurm_conf) {
    constexpr std::string_view kKey = "killwait=";
    long long seconds = 30;
    for (const auto& line : split(slurm_conf, '\n')) {
        std::istringstream words(line.substr(0, line.find('#')));
        for (std::string word; words >> word;) {
            std::transform(word.begin(), word.end(), word.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            long long value = 0;
            if (word.starts_with(kKey) && parse_integer(word.substr(kKey.size()), value) &&
                value >= 0 && value <= 65'535)
                seconds = value;  // the last line counts
        }
    }
    return std::chrono::seconds(seconds);
}

std::optional<std::chrono::seconds> read_kill_wait(const EnvironmentMap& environment,
                                                   const FileReader& read_text) {
    const std::string named = lookup(environment, "SLURM_CONF").value_or("");
    for (const std::string& path :
         {named, std::string("/etc/slurm/slurm.conf"), std::string("/run/slurm/conf/slurm.conf"),
          std::string("/etc/slurm-llnl/slurm.conf")}) {
        if (path.empty())
            continue;
        try {
            return kill_wait_in(read_text(path));
        } catch (const Error&) {  // it may be elsewhere
        }
    }
    return std::nullopt;
}

}  // namespace autolaunch::launcher
