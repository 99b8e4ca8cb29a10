#include "site/site_roles.hpp"

#include "allocation/slurm_time.hpp"
#include "base/text.hpp"
#include "spec/units.hpp"

#include <algorithm>
#include <cctype>

namespace autolaunch::launcher {

namespace {

const std::vector<std::string> kRoleKeys = {
    "name", "permissions", "resource_limits", "max_gpus", "max_memory", "max_time", "max_runtime"};
const std::vector<std::string> kLimitKeys = {"max_gpus", "max_memory", "max_time", "max_runtime"};

bool is_digits(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
}

// A number alone: seconds to us and minutes to Slurm, bytes to us and MiB to Slurm.
bool has_no_unit(std::string_view text) {
    return std::none_of(text.begin(), text.end(), [](unsigned char c) {
        return std::isalpha(c) != 0 || c == ':' || c == '-';
    });
}

// "24h" and Slurm's "1-00:00:00".
std::optional<std::chrono::seconds> time_from(std::string_view text) {
    if (has_no_unit(text))
        return std::nullopt;
    if (const auto duration = duration_from(text))
        return std::chrono::floor<std::chrono::seconds>(*duration);
    return parse_slurm_time(text);
}

class RoleReader {
public:
    RoleReader(SiteRole& role, std::string path, std::vector<SpecError>& errors)
        : role_(role), path_(std::move(path)), errors_(errors) {}

    void read(const Value& value) {
        for (const Entry& entry : value.entries) {
            if (entry.key == "permissions")
                read_permissions(entry.value);
            else if (entry.key == "resource_limits")
                read_limits(entry.value);
            else if (is_limit(entry.key))
                read_limit(entry);
            else if (entry.key != "name")
                refuse_key(entry, kRoleKeys);
        }
    }

private:
    static bool is_limit(const std::string& key) {
        return std::find(kLimitKeys.begin(), kLimitKeys.end(), key) != kLimitKeys.end();
    }
    void refuse_key(const Entry& entry, const std::vector<std::string>& known) {
        const std::string near = nearest(entry.key, known);
        errors_.push_back(
            error_at(entry.key_at, path_ + '.' + entry.key,
                     "unknown key; " + (near.empty() ? "there are " + join(known, ", ")
                                                     : "did you mean \"" + near + "\"?")));
    }
    void refuse_value(const Value& value, const std::string& key, const std::string& expected) {
        errors_.push_back(error_at(value.at, path_ + '.' + key,
                                   "expected " + expected + "; found " + describe(value)));
    }
    void read_permissions(const Value& value) {
        SiteLimit<std::vector<std::string>> permissions{{}, {}, value.at};
        if (!value.is_sequence())
            return refuse_value(value, "permissions", "a list of words");
        for (const Value& item : value.items) {
            if (!item.is_scalar())
                refuse_value(item, "permissions", "a word");
            permissions.value.push_back(item.text);
        }
        permissions.text = join(permissions.value, ", ");
        role_.permissions = std::move(permissions);
    }
    void read_limits(const Value& value) {
        if (!value.is_mapping())
            return refuse_value(value, "resource_limits", "a mapping");
        for (const Entry& entry : value.entries)
            if (is_limit(entry.key))
                read_limit(entry);
            else
                refuse_key(entry, kLimitKeys);
    }
    void read_limit(const Entry& entry) {
        const Value& value = entry.value;
        const std::string text = value.is_scalar() ? value.text : std::string();
        if (entry.key == "max_gpus") {
            long long number = 0;
            if (!is_digits(text) || !parse_integer(text, number))
                return refuse_value(value, entry.key, "a whole number >= 0");
            set(role_.max_gpus, static_cast<std::int64_t>(number), entry);
        } else if (entry.key == "max_memory") {
            const auto bytes = bytes_from(text);
            if (!bytes || has_no_unit(text))
                return refuse_value(value, entry.key, "a size such as 512GB or 64GiB");
            set(role_.max_memory, *bytes, entry);
        } else {
            const auto time = time_from(text);
            if (!time)
                return refuse_value(value, entry.key, "a time such as 24h, 90m or 1-12:00:00");
            set(role_.max_time, *time, entry);
        }
    }
    template <class T>
    void set(std::optional<SiteLimit<T>>& limit, T value, const Entry& entry) {
        if (limit)
            errors_.push_back(error_at(entry.key_at, path_ + '.' + entry.key,
                                       "is said twice: " + place_of(limit->at) + " has it"));
        limit = SiteLimit<T>{value, entry.value.text, entry.value.at};
    }

    SiteRole& role_;
    std::string path_;
    std::vector<SpecError>& errors_;
};

void read_role(std::string name, const Value& value, const Origin& at, const std::string& path,
               std::vector<SiteRole>& roles, std::vector<SpecError>& errors) {
    if (!value.is_mapping()) {
        errors.push_back(error_at(value.at, path, "expected a mapping; found " + describe(value)));
        return;
    }
    const auto same = std::find_if(roles.begin(), roles.end(),
                                   [&](const SiteRole& role) { return role.name == name; });
    if (same != roles.end()) {
        errors.push_back(error_at(
            at, path, "there is a role " + name + " at " + place_of(same->at) + " already"));
        return;
    }
    SiteRole role{std::move(name), at, {}, {}, {}, {}};
    RoleReader(role, path + '.' + role.name, errors).read(value);
    roles.push_back(std::move(role));
}

}  // namespace

std::string place_of(const Origin& at) {
    return (at.file ? *at.file : std::string("?")) + ':' + std::to_string(at.line);
}

std::vector<SiteRole> read_site_roles(const Value& value, const std::string& path,
                                      std::vector<SpecError>& errors) {
    std::vector<SiteRole> roles;
    for (const Entry& entry : value.entries)
        read_role(entry.key, entry.value, entry.key_at, path, roles, errors);
    for (const Value& item : value.items) {
        const Entry* name = item.find("name");
        if (name == nullptr || !name->value.is_scalar() || name->value.text.empty()) {
            errors.push_back(error_at(item.at, path, "a role needs a name, that of a group"));
            continue;
        }
        read_role(name->value.text, item, name->value.at, path, roles, errors);
    }
    if (!value.is_mapping() && !value.is_sequence() && !value.is_null())
        errors.push_back(
            error_at(value.at, path,
                     "expected a list of roles, each with a name; found " + describe(value)));
    return roles;
}

}  // namespace autolaunch::launcher
