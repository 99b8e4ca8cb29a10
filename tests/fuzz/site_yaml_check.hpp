#pragma once
#include "site/site_checks.hpp"
#include "site/site_merge.hpp"
#include "site/site_vault.hpp"
#include "spec/yaml_reader.hpp"

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// An administrator's file, and the same as a job's sections beside it: settings with a place, each
/// at most once, or errors that name one. Aborts where that is not so. How many settings there are.
inline std::size_t check_site_bytes(std::string_view bytes) {
    std::vector<SpecError> errors;
    const Value root = read_yaml(bytes, "site.yaml", errors);
    if (!errors.empty() || !root.is_mapping())
        return 0;
    const SiteSettings site = read_site_settings(root, SiteSource::administrator, errors);
    const SiteSettings job = read_site_settings(root, SiteSource::job, errors);
    const SiteSettings both = tighten(site, job, errors);
    for (const SpecError& error : errors)
        if (error.message.empty() || error.file != "site.yaml" || to_string(error).empty())
            std::abort();
    const SiteKeyRule* before = nullptr;
    for (const SiteSetting& setting : both.settings) {
        if (setting.rule == nullptr || setting.rule == before)
            std::abort();
        before = setting.rule;
        site_value_text(setting);
    }
    for (const SiteKey& key : check_site(both, SiteFacts()))
        if (key.state.empty())
            std::abort();
    vault_of(both);
    return both.settings.size();
}

}  // namespace autolaunch::launcher
