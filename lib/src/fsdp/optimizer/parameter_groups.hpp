#pragma once
#include "fsdp/optimizer/algorithm.hpp"
#include "fsdp/optimizer_shard.hpp"

#include <autolaunch/fsdp/optimizer.hpp>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

/// Whether a name is what a pattern describes: * stands for any text, ? for one character.
AUTOLAUNCH_API bool matches_pattern(std::string_view pattern, std::string_view name);

/// What the parameters of a model are updated with. Pure: equal on all ranks, which all know all
/// names.
class AUTOLAUNCH_API SettingsOfParameters {
public:
    using Decays = std::function<bool(const ParameterSpec&)>;

    /// `defaults` are what holds without a group; its weight decay only for what `decays`, an empty
    /// one being "has two dimensions or more". Throws Error{invalid_argument} for a group that no
    /// parameter is in, and for one that sets what the algorithm has no use for.
    SettingsOfParameters(const std::vector<StateTensor>& parameters,
                         const std::vector<ParameterGroup>& groups,
                         const ParameterSettings& defaults, Decays decays,
                         const Algorithm& algorithm);

    /// The different settings, each at an index: also those of groups that this rank holds nothing
    /// of, so that all ranks refuse what makes no sense.
    const std::vector<ParameterSettings>& all() const noexcept { return all_; }
    /// The index of a parameter's.
    std::size_t index_of(const std::string& full_name, const ParameterSpec& parameter);

private:
    ParameterSettings settings_of(const ParameterGroup* group, bool decays) const;
    std::size_t index_of(const ParameterSettings& settings);

    std::vector<ParameterSettings> all_;
    std::vector<ParameterGroup> groups_;
    ParameterSettings defaults_;
    Decays decays_;
    std::map<std::string, std::size_t, std::less<>>
        group_of_;  // full name -> group, for those that are in one
};

}  // namespace autolaunch::fsdp
