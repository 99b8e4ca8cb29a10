#pragma once
#include "base/file_system.hpp"
#include "site/site_file.hpp"
#include "spec/job_spec.hpp"
#include "staging/plan_staging.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// What the administrator's file says under that key; empty: nothing. Pure.
inline std::string word_of(const std::optional<SiteSettings>& site, const char* key) {
    const SiteSetting* const found = site ? site->find(key) : nullptr;
    return found == nullptr ? std::string() : found->value.text;
}

/// Where the spec's jobs have it, seen from here: a relative one is below trainer.workdir. Empty:
/// auto.
inline std::string scratch_of_spec(const JobSpec& spec) {
    return spec.storage.scratch == "auto"
               ? std::string()
               : (absolute_path(spec.trainer.workdir) / spec.storage.scratch)
                     .lexically_normal()
                     .string();
}

/// The folder on this node's own disk where nobody has said another one: storage.scratch: auto.
/// Pure.
inline std::string scratch_of_site(const std::optional<SiteSettings>& site) {
    const std::string said = word_of(site, "storage_management.scratch_space");
    return said.empty() ? kDefaultScratch : said;
}

}  // namespace autolaunch::launcher
