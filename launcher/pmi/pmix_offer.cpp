#include "pmi/pmix_offer.hpp"

#include "base/text.hpp"
#include "pmi/pmixd_process.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace autolaunch::launcher {

namespace {

// By these names OpenPMIx 4 and 5 tell ranks where they listen, each for clients of one version.
constexpr std::array<const char*, 5> kUriNames = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                                  "PMIX_SERVER_URI3", "PMIX_SERVER_URI2",
                                                  "PMIX_SERVER_URI21"};
// A rank that has these otherwise speaks to nobody, or in another tongue. Of the others it takes
// what it likes: the server has more modules for them than a rank was told of.
constexpr std::array<std::string_view, 3> kMustAgree = {"PMIX_NAMESPACE", "PMIX_RANK",
                                                        "PMIX_BFROP_BUFFER_TYPE"};

std::string_view value_in(const std::vector<std::string>& lines, std::string_view name) {
    for (const std::string& line : lines)
        if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == '=')
            return std::string_view(line).substr(name.size() + 1);
    return {};
}

// "4.2" of "4.2.2rc2": what a client makes of the server's version.
std::string_view series(std::string_view version) {
    return version.substr(0, version.find('.', version.find('.') + 1));
}

}  // namespace

std::vector<std::string> foresee_pmix_environment(const PmixOffer& offer) {
    std::vector<std::string> lines = {
        "PMIX_NAMESPACE=" + offer.name_space,
        "PMIX_RANK=" + std::to_string(offer.rank),
        "PMIX_SECURITY_MODE=native",
        "PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC",
        "PMIX_GDS_MODULE=hash",  // the one that needs no files of the server's
        "PMIX_SERVER_TMPDIR=" + offer.directory,
        "PMIX_SYSTEM_TMPDIR=" + offer.directory,
        "PMIX_HOSTNAME=" + offer.node_name,
        "PMIX_VERSION=" + offer.version,
    };
    for (const char* name : kUriNames)
        lines.push_back(std::string(name) + '=' + offer.name_space + ".pmixd." +
                        std::to_string(offer.node_rank) +
                        ";tcp4://127.0.0.1:" + std::to_string(offer.port));
    return lines;
}

std::string find_pmix_surprise(const std::vector<std::string>& foreseen,
                               const std::vector<std::string>& actual) {
    for (const std::string_view name : kMustAgree)
        if (value_in(foreseen, name) != value_in(actual, name))
            return std::string(name) + " is " + std::string(value_in(actual, name));
    for (const char* name : kUriNames)
        if (value_in(foreseen, name) != value_in(actual, name))
            return std::string(name) + " is " + std::string(value_in(actual, name));
    const auto version = value_in(actual, "PMIX_VERSION");
    if (series(version) != series(value_in(foreseen, "PMIX_VERSION")))
        return "it is version " + std::string(version);
    return {};
}

std::string built_pmix_version() { return AUTOLAUNCH_PMIX_VERSION; }

bool can_offer_pmix(const std::vector<std::string>& environment) {
    const std::string version = built_pmix_version();
    const bool known = version.starts_with("4.") || version.starts_with("5.");
    return known && !find_pmixd(environment).empty();
}

}  // namespace autolaunch::launcher
