#include "site/site_keys.hpp"

#include <algorithm>
#include <array>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kNoLevels =
    "the audit trail has no levels: audit.events_to_log chooses what is recorded";
constexpr std::string_view kNoDashboards =
    "not looked at: autolaunch render grafana writes dashboards, whatever is here";
constexpr std::string_view kNoCleanup =
    "this version deletes nothing that is old; systemd-tmpfiles does, by a line of tmpfiles.d";

constexpr std::array kKeys = {
    SiteKeyRule{"authentication.method", SiteForm::text, Tighter::same, SiteCheck::login, ""},
    SiteKeyRule{"authentication.realm", SiteForm::text, Tighter::same, SiteCheck::login, ""},
    SiteKeyRule{"authorization.rbac_enabled", SiteForm::boolean, Tighter::if_true, SiteCheck::rbac,
                ""},
    SiteKeyRule{"authorization.user_groups", SiteForm::roles, Tighter::by_role, SiteCheck::rbac,
                ""},
    SiteKeyRule{"network_security.encrypted_communication", SiteForm::boolean, Tighter::if_true,
                SiteCheck::encryption_on_the_way, ""},
    SiteKeyRule{"network_security.firewall_rules", SiteForm::mappings, Tighter::fewer,
                SiteCheck::firewall, ""},
    SiteKeyRule{"data_security.encryption_at_rest", SiteForm::boolean, Tighter::if_true,
                SiteCheck::encryption_at_rest, ""},
    SiteKeyRule{"data_security.encryption_in_transit", SiteForm::boolean, Tighter::if_true,
                SiteCheck::encryption_on_the_way, ""},
    SiteKeyRule{"data_security.audit_logging", SiteForm::boolean, Tighter::if_true,
                SiteCheck::audit, ""},
    SiteKeyRule{"data_security.data_isolation", SiteForm::isolation, Tighter::more_isolated,
                SiteCheck::data_isolation, ""},
    SiteKeyRule{"container.require_digest", SiteForm::boolean, Tighter::if_true,
                SiteCheck::image_digest, ""},
    SiteKeyRule{"vault.address", SiteForm::text, Tighter::same, SiteCheck::vault, ""},
    SiteKeyRule{"vault.namespace", SiteForm::text, Tighter::same, SiteCheck::vault, ""},
    SiteKeyRule{"vault.auth.method", SiteForm::text, Tighter::same, SiteCheck::vault, ""},
    SiteKeyRule{"vault.auth.mount", SiteForm::text, Tighter::same, SiteCheck::vault, ""},
    SiteKeyRule{"vault.auth.role", SiteForm::text, Tighter::same, SiteCheck::vault, ""},
    SiteKeyRule{"vault.auth.file", SiteForm::text, Tighter::same, SiteCheck::vault, ""},
    SiteKeyRule{"audit.enabled", SiteForm::boolean, Tighter::if_true, SiteCheck::audit, ""},
    SiteKeyRule{"audit.required", SiteForm::boolean, Tighter::if_true, SiteCheck::audit, ""},
    SiteKeyRule{"audit.directory", SiteForm::text, Tighter::same, SiteCheck::audit, ""},
    SiteKeyRule{"audit.anchor", SiteForm::text, Tighter::same, SiteCheck::audit, ""},
    SiteKeyRule{"audit.log_level", SiteForm::text, Tighter::more_verbose, SiteCheck::none,
                kNoLevels},
    SiteKeyRule{"audit.log_retention_days", SiteForm::whole_number, Tighter::larger,
                SiteCheck::audit, ""},
    SiteKeyRule{"audit.events_to_log", SiteForm::texts, Tighter::more, SiteCheck::audit, ""},
    SiteKeyRule{"gpu_scheduling.scheduler", SiteForm::text, Tighter::same, SiteCheck::scheduler,
                ""},
    SiteKeyRule{"gpu_scheduling.allocation_strategy", SiteForm::text, Tighter::same,
                SiteCheck::allocation_strategy, ""},
    SiteKeyRule{"gpu_scheduling.preemption_enabled", SiteForm::boolean, Tighter::same,
                SiteCheck::preemption, ""},
    SiteKeyRule{"memory_management.swap_enabled", SiteForm::boolean, Tighter::same, SiteCheck::swap,
                ""},
    SiteKeyRule{"memory_management.oom_killer_enabled", SiteForm::boolean, Tighter::same,
                SiteCheck::oom_killer, ""},
    SiteKeyRule{"memory_management.memory_overcommit", SiteForm::boolean, Tighter::same,
                SiteCheck::overcommit, ""},
    SiteKeyRule{"storage_management.shared_filesystem", SiteForm::text, Tighter::same,
                SiteCheck::shared_folder, ""},
    SiteKeyRule{"storage_management.scratch_space", SiteForm::text, Tighter::same,
                SiteCheck::scratch_folder, ""},
    SiteKeyRule{"storage_management.shared_cache", SiteForm::text, Tighter::only_site,
                SiteCheck::shared_cache, ""},
    SiteKeyRule{"storage_management.shared_cache_owner", SiteForm::text, Tighter::only_site,
                SiteCheck::shared_cache, ""},
    SiteKeyRule{"storage_management.cleanup_policy", SiteForm::text, Tighter::same, SiteCheck::none,
                kNoCleanup},
    SiteKeyRule{"storage_management.retention_days", SiteForm::whole_number, Tighter::smaller,
                SiteCheck::staged_age, ""},
    SiteKeyRule{"system_monitoring.enabled", SiteForm::boolean, Tighter::if_true,
                SiteCheck::measured, ""},
    SiteKeyRule{"system_monitoring.metrics_collection_interval", SiteForm::whole_number,
                Tighter::smaller, SiteCheck::measured, ""},
    SiteKeyRule{"system_monitoring.metrics_to_collect", SiteForm::texts, Tighter::more,
                SiteCheck::measured, ""},
    SiteKeyRule{"job_monitoring.enabled", SiteForm::boolean, Tighter::if_true, SiteCheck::logs_kept,
                ""},
    SiteKeyRule{"job_monitoring.log_collection", SiteForm::boolean, Tighter::if_true,
                SiteCheck::logs_kept, ""},
    SiteKeyRule{"job_monitoring.performance_tracking", SiteForm::boolean, Tighter::if_true,
                SiteCheck::logs_kept, ""},
    SiteKeyRule{"job_monitoring.resource_usage_tracking", SiteForm::boolean, Tighter::if_true,
                SiteCheck::measured, ""},
    SiteKeyRule{"alerting.enabled", SiteForm::boolean, Tighter::if_true, SiteCheck::alerts, ""},
    SiteKeyRule{"alerting.channels", SiteForm::mappings, Tighter::beside, SiteCheck::alerts, ""},
    SiteKeyRule{"alerting.alerts", SiteForm::mappings, Tighter::beside, SiteCheck::alerts, ""},
    SiteKeyRule{"alerting.messages_a_day", SiteForm::whole_number, Tighter::smaller,
                SiteCheck::alerts, ""},
    SiteKeyRule{"dashboards.grafana.enabled", SiteForm::boolean, Tighter::if_true, SiteCheck::none,
                kNoDashboards},
    SiteKeyRule{"dashboards.grafana.url", SiteForm::text, Tighter::same, SiteCheck::none,
                kNoDashboards},
    SiteKeyRule{"dashboards.grafana.dashboards", SiteForm::texts, Tighter::more, SiteCheck::none,
                kNoDashboards},
};

constexpr std::array<std::string_view, 3> kWings = {"security", "monitoring",
                                                    "resource_management"};

void add_once(std::vector<std::string>& names, std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end())
        names.emplace_back(name);
}

}  // namespace

std::span<const SiteKeyRule> site_keys() { return kKeys; }

const SiteKeyRule* find_site_key(std::string_view path) {
    const auto found = std::find_if(kKeys.begin(), kKeys.end(),
                                    [&](const SiteKeyRule& rule) { return rule.path == path; });
    return found == kKeys.end() ? nullptr : &*found;
}

std::vector<std::string> site_section_names() {
    std::vector<std::string> names;
    for (const SiteKeyRule& rule : kKeys)
        add_once(names, rule.path.substr(0, rule.path.find('.')));
    return names;
}

std::span<const std::string_view> site_wings() { return kWings; }

std::vector<std::string> site_names_below(std::string_view path) {
    std::vector<std::string> names;
    for (const SiteKeyRule& rule : kKeys)
        if (rule.path.starts_with(path) && rule.path.substr(path.size()).starts_with('.')) {
            const std::string_view rest = rule.path.substr(path.size() + 1);
            add_once(names, rest.substr(0, rest.find('.')));
        }
    return names;
}

std::string_view site_expectation(SiteForm form) {
    switch (form) {
        case SiteForm::boolean:
            return "true or false";
        case SiteForm::whole_number:
            return "a whole number >= 0";
        case SiteForm::text:
            return "text";
        case SiteForm::texts:
            return "a list of words";
        case SiteForm::mappings:
            return "a list of mappings";
        case SiteForm::isolation:
            return "true or false, group or private";
        case SiteForm::roles:
            return "a list of roles, each with a name";
    }
    return {};
}

}  // namespace autolaunch::launcher
