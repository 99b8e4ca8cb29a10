#include "submission/dependencies.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace autolaunch::launcher {

namespace {

const std::vector<std::string>& kinds() {
    static const std::vector<std::string> kKinds = {
        "after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok", "singleton"};
    return kKinds;
}

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// 4711, 4711_3, 4711_*, and behind `after` also 4711+10.
bool take_job(std::string_view text, const std::string& kind, std::vector<std::string>& jobs) {
    const std::size_t plus = text.find('+');
    if (plus != std::string_view::npos && (kind != "after" || !is_number(text.substr(plus + 1))))
        return false;
    text = text.substr(0, plus);
    const std::size_t dash = text.find('_');
    const std::string_view element =
        dash == std::string_view::npos ? std::string_view("0") : text.substr(dash + 1);
    if (!is_number(text.substr(0, dash)) || (!is_number(element) && element != "*"))
        return false;
    jobs.emplace_back(text.substr(0, dash));
    return true;
}

std::string take_one(const std::string& text, std::vector<std::string>& jobs) {
    const auto parts = split(text, ':');
    if (std::find(kinds().begin(), kinds().end(), parts[0]) == kinds().end()) {
        const std::string near = nearest(parts[0], kinds());
        return "Slurm knows no dependency \"" + parts[0] + '"' +
               (near.empty() ? "; there are " + join(kinds(), ", ")
                             : "; did you mean " + near + "?");
    }
    const bool alone = parts[0] == "singleton";
    if (alone != (parts.size() == 1))
        return alone ? "singleton stands alone"
                     : parts[0] + " needs a job, as in " + parts[0] + ":4711";
    for (std::size_t i = 1; i < parts.size(); ++i)
        if (!take_job(parts[i], parts[0], jobs))
            return '"' + parts[i] + "\" is no job's number, as in " + parts[0] + ":4711";
    return {};
}

}  // namespace

std::optional<std::vector<std::string>> parse_dependency(std::string_view text, std::string& why) {
    std::vector<std::string> jobs;
    const bool all = text.find(',') != std::string_view::npos;
    if (all && text.find('?') != std::string_view::npos) {
        why = "joins by a comma (all of them) and by ? (any of them); Slurm takes one of the two";
        return std::nullopt;
    }
    for (const std::string& one : split(text, all ? ',' : '?')) {
        why = take_one(one, jobs);
        if (!why.empty())
            return std::nullopt;
    }
    return jobs;
}

}  // namespace autolaunch::launcher
