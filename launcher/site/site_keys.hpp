#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// The one table of the administrator's keys: how each is written, which of two values is the
// tighter, who enforces it. The reader, the merge with a job's spec, the checks and docs/site.md
// come from it.

enum class SiteForm {
    boolean,
    whole_number,
    text,
    texts,      ///< a list of words
    mappings,   ///< a list of mappings, such as firewall_rules
    isolation,  ///< true or false, or group or private
    roles,      ///< a list of roles, or a mapping of them by name (site_roles.hpp)
};

/// Which of two values is the tighter. A job may have the tighter one.
enum class Tighter {
    same,       ///< neither: a job cannot change it
    only_site,  ///< a job says nothing of it, also where the administrator does not
    if_true,    ///< true is
    if_false,   ///< false is
    smaller,
    larger,
    fewer,          ///< a part of the list
    more,           ///< the list and more
    beside,         ///< a job's entries come to the administrator's
    more_verbose,   ///< DEBUG before INFO before WARNING before ERROR
    more_isolated,  ///< private before group, which true is, before false
    by_role         ///< each role's own limits
};

/// Whether a value holds is asked of these.
enum class SiteCheck {
    none,  ///< of nobody: this version does not act on the key
    login,
    rbac,
    encryption_on_the_way,
    encryption_at_rest,
    data_isolation,
    image_digest,
    audit,
    firewall,
    scheduler,
    allocation_strategy,
    preemption,
    swap,
    overcommit,
    oom_killer,
    shared_folder,
    scratch_folder,
    shared_cache,
    staged_age,
    logs_kept,
    measured,
    alerts,
    vault
};

struct SiteKeyRule {
    std::string_view path;  ///< section.key, or section.group.key
    SiteForm form;
    Tighter tighter;
    SiteCheck check;
    std::string_view why_not;  ///< with SiteCheck::none: who could do it meanwhile
};

/// In the order in which they are documented and shown.
std::span<const SiteKeyRule> site_keys();
const SiteKeyRule* find_site_key(std::string_view path);
/// The sections that a file may have at its top, or below one of site_wings().
std::vector<std::string> site_section_names();
/// security, monitoring, resource_management: people write sections below these, too.
std::span<const std::string_view> site_wings();
/// Names of the keys and groups directly below `path` ("audit", "dashboards.grafana").
std::vector<std::string> site_names_below(std::string_view path);
/// "true or false", "a whole number >= 0": completes "expected …".
std::string_view site_expectation(SiteForm form);

}  // namespace autolaunch::launcher
