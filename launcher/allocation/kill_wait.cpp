#include "allocation/kill_wait.hpp"

#include "allocation/adapters.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <cerrno>
#include <filesystem>

namespace autolaunch::launcher {

namespace {

using std::chrono::seconds;

constexpr int kMostFiles = 64;  // that include one another, perhaps in a circle

std::optional<seconds> parse_kill_wait(const std::string& text) {
    constexpr long long kEndless = 65'535;  // Slurm's own number for it
    if (equals_ignoring_case(text, "UNLIMITED") || equals_ignoring_case(text, "INFINITE"))
        return seconds(kEndless);
    long long number = 0;
    if (!parse_integer(text, number) || number < 0 || number > kEndless)
        return std::nullopt;
    return seconds(number);
}

std::optional<seconds> parse_whole_number(const std::string& text) {
    long long number = 0;
    return parse_integer(text, number) && number >= 0 ? std::optional(seconds(number))
                                                      : std::nullopt;
}

/// A number of slurm.conf, and how it is written.
struct ConfNumber {
    const char* name;
    std::optional<seconds> (*parse)(const std::string& text);
};
constexpr ConfNumber kKillWait{"KillWait", parse_kill_wait};

// Of a file's lines; `included` answers for the files that it includes. The last counts.
std::optional<seconds> last_number(const ConfFile& conf, const ConfNumber& number,
                                   const auto& included) {
    std::optional<seconds> found;
    for (const ConfLine& line : conf.lines) {
        const std::optional<seconds> here =
            line.include.empty() ? number.parse(line.value(number.name)) : included(line.include);
        if (here)
            found = here;
    }
    return found;
}

// Reads slurm.conf and, in its place, each file that a line of it includes.
class ConfReader {
public:
    ConfReader(const ConfNumber& number, const FileReader& read_text,
               std::vector<std::string>& notes)
        : number_(number), read_text_(read_text), notes_(notes) {}

    std::optional<seconds> read(const std::string& path) {
        folder_ = std::filesystem::path(path).parent_path();
        return read_parsed(parse_slurm_conf(read_text_(path)));
    }

private:
    std::optional<seconds> read_parsed(const ConfFile& conf) {
        return last_number(conf, number_,
                           [this](const std::string& file) { return read_included(file); });
    }

    std::optional<seconds> read_included(const std::string& file) {
        if (++files_ > kMostFiles)
            return std::nullopt;
        const std::string path = (folder_ / file).string();
        try {
            return read_parsed(parse_slurm_conf(read_text_(path)));
        } catch (const Error& error) {
            notes_.push_back("slurm.conf includes " + path + ", which cannot be read here (" +
                             error.what() + "): a KillWait in it is not known");
            return std::nullopt;
        }
    }

    const ConfNumber number_;
    const FileReader& read_text_;
    std::vector<std::string>& notes_;
    std::filesystem::path folder_;  ///< of slurm.conf: names of included files begin there
    int files_ = 0;
};

// The file that SLURM_CONF names, and where Slurm keeps it.
std::vector<std::string> conf_places(const EnvironmentMap& environment) {
    std::vector<std::string> places = {"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf",
                                       "/etc/slurm-llnl/slurm.conf"};
    if (const auto named = lookup(environment, "SLURM_CONF"); named && !named->empty())
        places.insert(places.begin(), *named);
    return places;
}

bool is_absent(const Error& error) {
    const auto* system = dynamic_cast<const SystemError*>(&error);
    return system != nullptr &&
           (system->error_number() == ENOENT || system->error_number() == ENOTDIR);
}

}  // namespace

std::optional<seconds> kill_wait_in(const ConfFile& slurm_conf) {
    return last_number(slurm_conf, kKillWait,
                       [](const std::string&) { return std::optional<seconds>(); });
}

std::optional<long long> slurm_conf_number(const char* name, const EnvironmentMap& environment,
                                           const FileReader& read_text) {
    std::vector<std::string> said_of_kill_wait;
    for (const std::string& path : conf_places(environment)) {
        try {
            const auto found =
                ConfReader({name, parse_whole_number}, read_text, said_of_kill_wait).read(path);
            return found ? std::optional<long long>(found->count()) : std::nullopt;
        } catch (const Error&) {  // it may be elsewhere
        }
    }
    return std::nullopt;
}

KillWaitReading read_kill_wait(const EnvironmentMap& environment, const FileReader& read_text) {
    const std::string named = lookup(environment, "SLURM_CONF").value_or("");
    KillWaitReading reading;
    for (const std::string& path : conf_places(environment)) {
        try {
            reading.kill_wait = ConfReader(kKillWait, read_text, reading.notes)
                                    .read(path)
                                    .value_or(kDefaultKillWait);
            break;
        } catch (const Error& error) {  // it may be elsewhere
            if (path == named || !is_absent(error))
                reading.notes.push_back((path == named ? "SLURM_CONF names " : "Slurm's ") + path +
                                        (path == named ? ", which" : "") +
                                        " cannot be read here (" + error.what() + ")");
        }
    }
    if (!reading.notes.empty())
        reading.notes.push_back(
            reading.kill_wait
                ? "Slurm's KillWait is taken for " + std::to_string(reading.kill_wait->count()) +
                      " s: a stop's grace period is to end before it"
                : "Slurm's KillWait is not known: a stop's grace period may last longer");
    return reading;
}

}  // namespace autolaunch::launcher
