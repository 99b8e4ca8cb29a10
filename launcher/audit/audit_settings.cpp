#include "audit/audit_settings.hpp"

#include "base/refuse.hpp"
#include "base/text.hpp"
#include "site/audit_kinds.hpp"
#include "spec/scalar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace autolaunch::launcher {

namespace {

bool is_on(const SiteSettings& site, std::string_view path) {
    const SiteSetting* setting = site.find(path);
    return setting != nullptr && boolean_from(setting->value.text).value_or(false);
}

std::string text_of_key(const SiteSettings& site, std::string_view path) {
    const SiteSetting* setting = site.find(path);
    return setting == nullptr ? std::string() : setting->value.text;
}

// A host's name is a file's here, and comes from elsewhere.
std::string file_name_of(std::string host) {
    for (char& c : host)
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.' && c != '_')
            c = '_';
    return host.empty() || host.front() == '.' ? '_' + host : host;
}

}  // namespace

bool AuditSettings::records(std::string_view kind) const {
    return kinds.empty() || kinds.contains(kind);
}

AuditSettings audit_settings_of(const SiteSettings& site) {
    AuditSettings settings;
    settings.enabled = is_on(site, "audit.enabled") || is_on(site, "data_security.audit_logging");
    settings.required = is_on(site, "audit.required");
    settings.enabled = settings.enabled || settings.required;
    settings.directory = text_of_key(site, "audit.directory");
    settings.anchor = text_of_key(site, "audit.anchor");
    long long days = 0;
    if (parse_integer(text_of_key(site, "audit.log_retention_days"), days) && days > 0)
        settings.keep_days = static_cast<int>(std::min<long long>(days, 1'000'000));
    if (const SiteSetting* words = site.find("audit.events_to_log"))
        for (const Value& word : words->value.items)
            for (const std::string_view kind : kinds_of_word(word.text))
                settings.kinds.emplace(kind);
    return settings;
}

std::filesystem::path audit_file_of(const AuditSettings& settings, const Environment& environment,
                                    const std::string& host) {
    const std::string file = file_name_of(host) + ".jsonl";
    if (!settings.directory.empty())
        return settings.directory / std::to_string(::geteuid()) / file;
    const auto given = [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? std::string() : found->second;
    };
    if (const std::string state = given("XDG_STATE_HOME"); state.starts_with('/'))
        return std::filesystem::path(state) / "autolaunch/audit" / file;
    if (const std::string home = given("HOME"); home.starts_with('/'))
        return std::filesystem::path(home) / ".local/state/autolaunch/audit" / file;
    refuse("there is no place for the audit trail: HOME and XDG_STATE_HOME are not set",
           "the administrator's audit.directory names one for all users");
}

}  // namespace autolaunch::launcher
