#pragma once
#include "site/site_keys.hpp"
#include "site/site_roles.hpp"
#include "spec/value.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct SiteSetting {
    const SiteKeyRule* rule = nullptr;
    Value value;  ///< with file and line; of a form that the rule expects
};

/// What one file says, or what two of them come to.
struct SiteSettings {
    std::vector<SiteSetting> settings;  ///< in the order of site_keys(), each at most once
    std::vector<SiteRole> roles;        ///< of authorization.user_groups
    std::string contact;                ///< whom to ask; of the administrator's file alone
    std::string action;                 ///< what a job says it does; of a job's spec alone

    const SiteSetting* find(std::string_view path) const;
    /// Whether roles count: rbac_enabled, or roles without that word.
    bool has_roles() const;
};

/// data_security.data_isolation: who may look into what a job makes.
enum class Isolation { none, group, only_owner };
/// true is as group. Nothing where it is none of its words.
std::optional<Isolation> isolation_from(const Value& value);

enum class SiteSource {
    administrator,  ///< site.yaml: only these sections, and `contact`
    job,            ///< a spec's part of them, which site_sections() has cut out
};

/// Sections may stand at the top or below security, monitoring and resource_management; `rbac` is
/// authorization, `roles` is user_groups. What is unknown, mistyped or said twice goes to `errors`,
/// with line and remedy. Pure.
SiteSettings read_site_settings(const Value& root, SiteSource source,
                                std::vector<SpecError>& errors);

/// "true", "8", "[a, b]", "3 entries": of a value, for people; *** for a secret.
std::string site_value_text(const SiteSetting& setting);

}  // namespace autolaunch::launcher
