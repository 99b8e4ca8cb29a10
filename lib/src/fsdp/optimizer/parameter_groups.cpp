#include "fsdp/optimizer/parameter_groups.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::fsdp {

namespace {

std::string described(const ParameterGroup& group, std::size_t index) {
    return group.pattern.empty() ? "parameter group " + std::to_string(index)
                                 : "parameter group \"" + group.pattern + "\"";
}

void require_usable(const ParameterGroup& group, std::size_t index, const Algorithm& algorithm) {
    const std::string who = described(group, index);
    const auto uses = algorithm.uses();
    const auto refuse_unused = [&](bool given, bool used, const char* what) {
        require_option(!given || used, algorithm.name(),
                       who + " sets " + what + ", which this optimizer has no use for");
    };
    require_option(group.pattern.empty() == static_cast<bool>(group.matches), algorithm.name(),
                   who + " must have either a pattern or a predicate");
    require_option(group.lr_scale >= 0, algorithm.name(), who + " has a negative lr_scale");
    require_option(group.weight_decay.value_or(0) >= 0, algorithm.name(),
                   who + " has a negative weight_decay");
    refuse_unused(group.beta1.has_value(), uses.beta1, "beta1");
    refuse_unused(group.beta2.has_value(), uses.beta2, "beta2");
    refuse_unused(group.eps.has_value(), uses.eps, "eps");
    refuse_unused(group.momentum.has_value(), uses.momentum, "momentum");
}

bool is_in(const ParameterGroup& group, const StateTensor& parameter) {
    if (group.matches)
        return group.matches(ParameterSpec{parameter.name, parameter.shape});
    return matches_pattern(group.pattern, parameter.name);
}

[[noreturn]] void refuse_empty(const ParameterGroup& group, std::size_t index,
                               const Algorithm& algorithm,
                               const std::vector<StateTensor>& parameters) {
    std::vector<std::string> names;
    for (const StateTensor& parameter : parameters)
        names.push_back(parameter.name);
    throw Error(ErrorCode::invalid_argument,
                std::string(algorithm.name()) + ": " + described(group, index) +
                    " has no parameters" + nearest_asked(group.pattern, names),
                "full names are <unit>.<parameter>, such as " + names.front() +
                    "; * stands for any text, ? for one character");
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view name) {
    // Greedy, going back to the last star only: linear for one star, and never exponential.
    std::size_t at = 0, in_name = 0, star = std::string_view::npos, resume = 0;
    while (in_name < name.size()) {
        if (at < pattern.size() && pattern[at] == '*') {
            star = at++;
            resume = in_name;
        } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == name[in_name])) {
            ++at;
            ++in_name;
        } else if (star != std::string_view::npos) {
            at = star + 1;
            in_name = ++resume;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

SettingsOfParameters::SettingsOfParameters(const std::vector<StateTensor>& parameters,
                                           const std::vector<ParameterGroup>& groups,
                                           const ParameterSettings& defaults, Decays decays,
                                           const Algorithm& algorithm)
    : groups_(groups), defaults_(defaults), decays_(std::move(decays)) {
    if (!decays_)
        decays_ = [](const ParameterSpec& parameter) { return parameter.shape.size() >= 2; };
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        require_usable(groups_[i], i, algorithm);
        bool found = false;
        for (const StateTensor& parameter : parameters) {
            if (!is_in(groups_[i], parameter))
                continue;
            found = true;
            group_of_.try_emplace(parameter.name, i);  // the first group counts
        }
        if (!found)
            refuse_empty(groups_[i], i, algorithm, parameters);
        index_of(settings_of(&groups_[i], true));
    }
    index_of(defaults_);
}

ParameterSettings SettingsOfParameters::settings_of(const ParameterGroup* group,
                                                    bool decays) const {
    ParameterSettings settings = defaults_;
    if (!decays)
        settings.weight_decay = 0;
    if (group == nullptr)
        return settings;
    settings.lr_scale = group->lr_scale;
    settings.weight_decay = group->weight_decay.value_or(settings.weight_decay);
    settings.beta1 = group->beta1.value_or(settings.beta1);
    settings.beta2 = group->beta2.value_or(settings.beta2);
    settings.eps = group->eps.value_or(settings.eps);
    settings.momentum = group->momentum.value_or(settings.momentum);
    return settings;
}

std::size_t SettingsOfParameters::index_of(const std::string& full_name,
                                           const ParameterSpec& parameter) {
    ParameterSpec named = parameter;
    named.name = full_name;
    const auto found = group_of_.find(full_name);
    return index_of(
        settings_of(found == group_of_.end() ? nullptr : &groups_[found->second], decays_(named)));
}

std::size_t SettingsOfParameters::index_of(const ParameterSettings& settings) {
    const auto known = std::find(all_.begin(), all_.end(), settings);
    if (known != all_.end())
        return static_cast<std::size_t>(known - all_.begin());
    all_.push_back(settings);
    return all_.size() - 1;
}

}  // namespace autolaunch::fsdp
