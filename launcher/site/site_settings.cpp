#include "site/site_settings.hpp"

#include "base/text.hpp"
#include "secrets/secrets.hpp"
#include "spec/scalar.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kUserGroups = "authorization.user_groups";

// Names that people have for the same.
std::string section_name(const std::string& name) {
    return name == "rbac" ? "authorization" : name;
}
std::string key_name(const std::string& section, const std::string& name) {
    if (section != "authorization")
        return name;
    if (name == "roles")
        return "user_groups";
    return name == "enabled" ? "rbac_enabled" : name;
}

// People write these right below monitoring, without the section that they belong to.
const SiteKeyRule* rule_below_wing(const std::string& wing, const std::string& key) {
    return wing == "monitoring" && (key == "alerts" || key == "channels")
               ? find_site_key("alerting." + key)
               : nullptr;
}

class SettingsReader {
public:
    SettingsReader(SiteSource source, std::vector<SpecError>& errors)
        : source_(source), errors_(errors) {}

    SiteSettings read(const Value& root) {
        read_sections_of(root, "");
        std::sort(settings_.settings.begin(), settings_.settings.end(),
                  [](const SiteSetting& a, const SiteSetting& b) { return a.rule < b.rule; });
        return std::move(settings_);
    }

private:
    void read_sections_of(const Value& value, const std::string& wing);
    void read_group(const Value& value, const std::string& path, const std::string& shown);
    void read_key(const SiteKeyRule& rule, const Entry& entry, const std::string& shown);
    bool fits(const SiteKeyRule& rule, const Value& value) const;
    bool takes_alone(const Entry& entry, const std::string& path);
    void complain(const Origin& at, const std::string& key, std::string message) {
        errors_.push_back(error_at(at, key, std::move(message)));
    }
    bool check_mapping(const Value& value, const std::string& shown) {
        if (value.is_mapping())
            return true;
        if (!value.is_null())
            complain(value.at, shown, "expected a mapping; found " + describe(value));
        return false;
    }

    SiteSource source_;
    std::vector<SpecError>& errors_;
    SiteSettings settings_;
};

void SettingsReader::read_sections_of(const Value& value, const std::string& wing) {
    const auto known = site_section_names();
    const auto wings = site_wings();
    for (const Entry& entry : value.entries) {
        const std::string shown = wing.empty() ? entry.key : wing + '.' + entry.key;
        const std::string section = section_name(entry.key);
        if (wing.empty() && entry.key == "contact" && source_ == SiteSource::administrator) {
            if (!entry.value.is_scalar())
                complain(entry.value.at, shown, "expected text; found " + describe(entry.value));
            settings_.contact = entry.value.text;
        } else if (std::find(known.begin(), known.end(), section) != known.end()) {
            if (check_mapping(entry.value, shown))
                read_group(entry.value, section, shown);
        } else if (const SiteKeyRule* rule = rule_below_wing(wing, entry.key)) {
            read_key(*rule, entry, shown);
        } else if (wing.empty() &&
                   std::find(wings.begin(), wings.end(), entry.key) != wings.end()) {
            if (check_mapping(entry.value, shown))
                read_sections_of(entry.value, entry.key);
        } else {
            const std::string near = nearest(entry.key, known);
            complain(entry.key_at, shown,
                     near.empty() ? "unknown section; there are " + join(known, ", ")
                                  : "unknown section; did you mean \"" + near + "\"?");
        }
    }
}

// Keys that are no key of the table: what a job says of itself.
bool SettingsReader::takes_alone(const Entry& entry, const std::string& path) {
    if (path != "authorization.action" || source_ != SiteSource::job)
        return false;
    if (!entry.value.is_scalar() || entry.value.text.empty())
        complain(entry.value.at, path, "expected a word, such as train or validate");
    settings_.action = entry.value.text;
    return true;
}

void SettingsReader::read_group(const Value& value, const std::string& path,
                                const std::string& shown) {
    const auto names = site_names_below(path);
    for (const Entry& entry : value.entries) {
        const std::string name = key_name(path, entry.key);
        const std::string below = path + '.' + name, shown_below = shown + '.' + entry.key;
        if (const SiteKeyRule* rule = find_site_key(below)) {
            read_key(*rule, entry, shown_below);
        } else if (!site_names_below(below).empty()) {
            if (check_mapping(entry.value, shown_below))
                read_group(entry.value, below, shown_below);
        } else if (!takes_alone(entry, below)) {
            const std::string near = nearest(entry.key, names);
            complain(entry.key_at, shown_below,
                     near.empty() ? "unknown key; there are " + join(names, ", ")
                                  : "unknown key; did you mean \"" + near + "\"?");
        }
    }
}

bool SettingsReader::fits(const SiteKeyRule& rule, const Value& value) const {
    const auto all = [&](auto is) {
        return value.is_sequence() && std::all_of(value.items.begin(), value.items.end(), is);
    };
    long long number = 0;
    switch (rule.form) {
        case SiteForm::isolation:
            return isolation_from(value).has_value();
        case SiteForm::boolean:
            return value.is_scalar() && value.plain && boolean_from(value.text).has_value();
        case SiteForm::whole_number:
            return value.is_scalar() && parse_integer(value.text, number) && number >= 0;
        case SiteForm::text:
            return value.is_scalar() && !value.text.empty();
        case SiteForm::texts:
            return all([](const Value& item) { return item.is_scalar(); });
        case SiteForm::mappings:
            return all([](const Value& item) { return item.is_mapping(); });
        case SiteForm::roles:
            return true;  // read_site_roles() says what is wrong, role by role
    }
    return false;
}

void SettingsReader::read_key(const SiteKeyRule& rule, const Entry& entry,
                              const std::string& shown) {
    if (entry.value.is_null())
        return;
    if (!fits(rule, entry.value))
        return complain(entry.value.at, shown,
                        "expected " + std::string(site_expectation(rule.form)) + "; found " +
                            describe(entry.value));
    if (const SiteSetting* twice = settings_.find(rule.path))
        return complain(entry.key_at, shown,
                        "is said twice: " + place_of(twice->value.at) + " has it already");
    if (rule.form == SiteForm::roles)
        settings_.roles = read_site_roles(entry.value, shown, errors_);
    settings_.settings.push_back({&rule, entry.value});
}

// By what they look like alone: `authorization` sounds like a secret, and is none.
void judge_secrets_anew(Value& value) {
    value.secret = value.is_scalar() && mask_secrets(value.text) != value.text;
    for (Value& item : value.items)
        judge_secrets_anew(item);
    for (Entry& entry : value.entries)
        judge_secrets_anew(entry.value);
}

std::string list_text(const Value& value) {
    std::vector<std::string> words;
    for (const Value& item : value.items)
        words.push_back(item.text);
    return '[' + join(words, ", ") + ']';
}

}  // namespace

const SiteSetting* SiteSettings::find(std::string_view path) const {
    const auto found =
        std::find_if(settings.begin(), settings.end(),
                     [&](const SiteSetting& setting) { return setting.rule->path == path; });
    return found == settings.end() ? nullptr : &*found;
}

std::optional<Isolation> isolation_from(const Value& value) {
    if (!value.is_scalar())
        return std::nullopt;
    if (value.text == "private")
        return Isolation::only_owner;
    if (value.text == "group")
        return Isolation::group;
    const auto word = value.plain ? boolean_from(value.text) : std::nullopt;
    if (!word)
        return std::nullopt;
    return *word ? Isolation::group : Isolation::none;
}

bool SiteSettings::has_roles() const {
    if (const SiteSetting* enabled = find("authorization.rbac_enabled"))
        return boolean_from(enabled->value.text).value_or(false);
    return find(kUserGroups) != nullptr;
}

SiteSettings read_site_settings(const Value& root, SiteSource source,
                                std::vector<SpecError>& errors) {
    Value own = root;
    judge_secrets_anew(own);
    return SettingsReader(source, errors).read(own);
}

std::string site_value_text(const SiteSetting& setting) {
    const Value& value = setting.value;
    switch (setting.rule->form) {
        case SiteForm::texts:
            return list_text(value);
        case SiteForm::mappings:
            return std::to_string(value.items.size()) +
                   (value.items.size() == 1 ? " entry" : " entries");
        case SiteForm::roles:
            return std::to_string(value.items.size() + value.entries.size()) + " roles";
        default:
            return value.secret ? std::string(kMasked) : value.text;
    }
}

}  // namespace autolaunch::launcher
