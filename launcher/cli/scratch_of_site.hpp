#pragma once
#include "site/site_file.hpp"
#include "staging/plan_staging.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// What the administrator's file says under that key; empty: nothing. Pure.
inline std::string word_of(const std::optional<SiteSettings>& site, const char* key) {
    const SiteSetting* const found = site ? site->find(key) : nullptr;
    return found == nullptr ? std::string() : found->value.text;
}

/// The folder on this node's own disk where nobody has said another one: storage.scratch: auto.
/// Pure.
inline std::string scratch_of_site(const std::optional<SiteSettings>& site) {
    const std::string said = word_of(site, "storage_management.scratch_space");
    return said.empty() ? kDefaultScratch : said;
}

}  // namespace autolaunch::launcher
