#include "nccl_env/nccl_conf.hpp"

#include "base/read_at_most.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kLongest = 1023;  // NCCL's buffers for a name and a value
constexpr std::size_t kMostBytes = 1 << 20;

bool has_blank_end(const std::string& text) { return std::string(trim(text)) != text; }

bool is_quoted(const std::string& text) {
    return text.size() > 1 && (text.front() == '"' || text.front() == '\'') &&
           text.back() == text.front();
}

// What NCCL does with this line that nobody can want.
std::string oddity(const std::string& name, const std::string& value) {
    if (name.starts_with("export "))
        return fmt::format("NCCL takes '{}' for the name: leave out export", name);
    if (has_blank_end(name))
        return fmt::format(
            "there are blanks around the name {}, so NCCL does not know it: remove them",
            trim(name));
    if (value.ends_with('\r'))
        return "the line ends as on Windows, and NCCL keeps the \\r: convert the file";
    if (has_blank_end(value))
        return fmt::format("NCCL keeps the blanks around {}'s value: remove them", name);
    if (is_quoted(value))
        return fmt::format("NCCL keeps the quotes of {}'s value: remove them", name);
    if (value.size() > kLongest)
        return fmt::format("NCCL cuts {}'s value after {} characters", name, kLongest);
    return {};
}

std::optional<std::string> read_text(const std::string& path) {
    try {
        return read_regular_file(path, kMostBytes);
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

void parse_nccl_conf(std::string_view text, const std::string& file, NcclConf& conf) {
    int number = 0;
    for (const std::string& line : split(text, '\n')) {
        const std::string place = fmt::format("{}:{}", file, ++number);
        if (line.starts_with('#'))
            continue;
        const auto equals = line.find('=');
        if (equals == std::string::npos) {
            if (!trim(line).empty())
                conf.warnings.push_back(place + ": no '=', so NCCL ignores it: write NAME=value");
            continue;
        }
        if (line.find('#') < equals)
            continue;  // a comment that is indented: as a variable it harms nobody
        const std::string name = line.substr(0, std::min(equals, kLongest));
        const std::string value = line.substr(equals + 1);
        if (const std::string odd = oddity(name, value); !odd.empty())
            conf.warnings.push_back(place + ": " + odd);
        const auto same = [&](const VariableChoice& choice) { return choice.name == name; };
        const auto first = std::find_if(conf.settings.begin(), conf.settings.end(), same);
        if (first == conf.settings.end()) {
            if (!name.empty())
                conf.settings.push_back({name, value.substr(0, kLongest), "in " + file, place});
        } else if (first->value != value) {
            conf.warnings.push_back(fmt::format("{}: {} has no effect: {} came first with {}",
                                                place, line, first->source, first->value));
        }
    }
}

NcclConf read_nccl_conf(const EnvironmentMap& found, const NcclConfPlaces& places) {
    NcclConf conf;
    const auto add = [&](const std::string& path) {
        const auto text = read_text(path);
        if (text)
            parse_nccl_conf(*text, path, conf);
        return text.has_value();
    };
    const auto named = found.find("NCCL_CONF_FILE");
    if (named != found.end() && !named->second.empty()) {
        const auto path = std::filesystem::path(places.working_dir) / named->second;
        if (!add(path.string()))
            conf.warnings.push_back(
                fmt::format("NCCL_CONF_FILE={}: there is no such file to read here, and NCCL says "
                            "nothing about it: "
                            "name one that every node has, or unset it",
                            named->second));
    } else if (!places.home.empty()) {
        add(places.home + "/.nccl.conf");
    }
    add(places.system_file);
    return conf;
}

}  // namespace autolaunch::launcher
