#include "spec/kubernetes_words.hpp"

#include "base/text.hpp"
#include "spec/scalar.hpp"
#include "spec/units.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alphanumeric(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }

/// What the part behind the / may be of a resource's or a label's name, and a key of a Secret.
bool is_qualified_word(std::string_view text, std::size_t longest = 63) {
    return !text.empty() && text.size() <= longest && is_alphanumeric(text.front()) &&
           is_alphanumeric(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
               return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
           });
}

bool is_some_text(const Value& value) {
    return value.is_scalar() && !value.text.empty() && value.text.find('\0') == std::string::npos;
}

std::optional<int> whole_number(const Value& value, int least) {
    if (!value.is_scalar() || !(value.plain || value.interpolated))
        return std::nullopt;
    const Scalar scalar = resolve_scalar(value.text);
    const auto* number = std::get_if<std::int64_t>(&scalar);
    if (number == nullptr || *number < least || *number > std::numeric_limits<int>::max())
        return std::nullopt;
    return static_cast<int>(*number);
}

/// One key of a mapping in a list, with what it expects and where it goes.
struct ItemKey {
    std::string name;
    std::string expects;
    std::function<bool(const Value&)> take;
};

ItemKey text_key(const char* name, const char* expects, std::string& field) {
    return {name, expects, [&field](const Value& value) {
                field = value.text;
                return is_some_text(value);
            }};
}

ItemKey word_key(const char* name, const std::vector<std::string>& words, std::string& field) {
    return {name, join(words, " or "), [&field, words](const Value& value) {
                field = value.text;
                return value.is_scalar() &&
                       std::find(words.begin(), words.end(), value.text) != words.end();
            }};
}

/// Every key of `item`, each at most once; false where anything was wrong.
bool read_item(const Value& item, const std::string& path, const std::vector<ItemKey>& keys,
               std::vector<SpecError>& errors) {
    std::vector<std::string> names;
    for (const ItemKey& key : keys)
        names.push_back(key.name);
    if (!item.is_mapping()) {
        errors.push_back(
            error_at(item.at, path,
                     "expected a mapping with " + join(names, ", ") + "; found " + describe(item)));
        return false;
    }
    const std::size_t before = errors.size();
    for (const Entry& entry : item.entries) {
        const auto key = std::find_if(keys.begin(), keys.end(), [&](const ItemKey& known) {
            return known.name == entry.key;
        });
        const std::string where = path + '.' + entry.key;
        if (key == keys.end()) {
            const std::string near = nearest(entry.key, names);
            errors.push_back(
                error_at(entry.key_at, where,
                         "unknown key; " + (near.empty() ? "there are " + join(names, ", ")
                                                         : "did you mean \"" + near + "\"?")));
        } else if (!entry.value.is_null() && !key->take(entry.value)) {
            errors.push_back(
                error_at(entry.value.at, where,
                         "expected " + key->expects + "; found " + describe(entry.value)));
        }
    }
    return errors.size() == before;
}

std::string item_path(const std::string& path, std::size_t index) {
    return path + '[' + std::to_string(index) + ']';
}

struct VolumeSource {
    const char* key;
    KubernetesVolume::Source source;
    const char* expects;
};
constexpr VolumeSource kVolumeSources[] = {
    {"claim", KubernetesVolume::Source::claim, "the name of a PersistentVolumeClaim"},
    {"host_path", KubernetesVolume::Source::host_path, "an absolute path on the hosts"},
    {"nfs", KubernetesVolume::Source::nfs, "SERVER:/PATH"},
    {"config_map", KubernetesVolume::Source::config_map, "the name of a ConfigMap"},
    {"secret", KubernetesVolume::Source::secret, "the name of a Secret"},
    {"empty_dir", KubernetesVolume::Source::empty_dir, "its size, such as 100GiB"},
};

bool take_source(const VolumeSource& known, const Value& value, KubernetesVolume& volume) {
    using Source = KubernetesVolume::Source;
    volume.source = known.source;
    if (!is_some_text(value))
        return false;
    volume.name = value.text;
    switch (known.source) {
        case Source::empty_dir:
            volume.name.clear();
            volume.size_bytes = bytes_from(value.text);
            return volume.size_bytes.value_or(0) > 0;
        case Source::host_path:
            return value.text.starts_with('/');
        case Source::nfs: {
            const std::size_t colon = value.text.find(":/");
            if (colon == std::string::npos || colon == 0)
                return false;
            volume.name = value.text.substr(0, colon);
            volume.path = value.text.substr(colon + 1);
            return true;
        }
        case Source::claim:
        case Source::config_map:
        case Source::secret:
            return is_dns_name(value.text);
    }
    return false;
}

std::optional<KubernetesVolume> read_volume(const Value& item, const std::string& path,
                                            std::vector<SpecError>& errors) {
    KubernetesVolume volume;
    std::vector<std::string> sources;
    std::vector<ItemKey> keys = {{"mount", "an absolute path in the pods", [&](const Value& value) {
                                      volume.mount = value.text;
                                      return is_some_text(value) && value.text.starts_with('/') &&
                                             value.text.size() > 1 &&
                                             value.text.find(':') == std::string::npos;
                                  }}};
    for (const VolumeSource& known : kVolumeSources)
        keys.push_back({known.key, known.expects, [&](const Value& value) {
                            sources.emplace_back(known.key);
                            return take_source(known, value, volume);
                        }});
    keys.push_back({"sub_path", "a path below it, which begins with no /", [&](const Value& value) {
                        volume.sub_path = value.text;
                        return is_some_text(value) && !value.text.starts_with('/') &&
                               ('/' + value.text + '/').find("/../") == std::string::npos;
                    }});
    keys.push_back({"read_only", "true or false", [&](const Value& value) {
                        const auto wanted =
                            value.is_scalar() ? boolean_from(value.text) : std::nullopt;
                        volume.read_only = wanted.value_or(false);
                        return wanted.has_value();
                    }});
    if (!read_item(item, path, keys, errors))
        return std::nullopt;
    const std::size_t before = errors.size();
    if (volume.mount.empty())
        errors.push_back(error_at(item.at, path, "says not where it is in the pods: add mount"));
    if (sources.empty())
        errors.push_back(error_at(item.at, path,
                                  "says not what it is: add claim, host_path, nfs, config_map, "
                                  "secret or empty_dir"));
    if (sources.size() > 1)
        errors.push_back(
            error_at(item.at, path, "has " + join(sources, " and ") + "; it is one of them"));
    return errors.size() == before ? std::optional(volume) : std::nullopt;
}

std::optional<KubernetesToleration> read_toleration(const Value& item, const std::string& path,
                                                    std::vector<SpecError>& errors) {
    KubernetesToleration toleration;
    const std::vector<ItemKey> keys = {
        text_key("key", "the key of a taint", toleration.key),
        word_key("operator", {"Exists", "Equal"}, toleration.op),
        text_key("value", "the taint's value", toleration.value),
        word_key("effect", {"NoSchedule", "PreferNoSchedule", "NoExecute"}, toleration.effect),
        {"seconds", "a whole number >= 0, of how long with NoExecute", [&](const Value& value) {
             toleration.seconds = whole_number(value, 0);
             return toleration.seconds.has_value();
         }}};
    if (!read_item(item, path, keys, errors))
        return std::nullopt;
    const auto complain = [&](const std::string& message) {
        errors.push_back(error_at(item.at, path, message));
        return std::nullopt;
    };
    if (toleration.op.empty())  // as Kubernetes would, and where no value is given as it is meant
        toleration.op = toleration.value.empty() ? "Exists" : "Equal";
    if (toleration.op == "Exists" && !toleration.value.empty())
        return complain("operator Exists takes no value; leave one of them out");
    if (toleration.op == "Equal" && toleration.key.empty())
        return complain("operator Equal needs a key");
    if (toleration.seconds && toleration.effect != "NoExecute")
        return complain("seconds goes with effect: NoExecute alone");
    return toleration;
}

std::optional<KubernetesSpread> read_one_spread(const Value& item, const std::string& path,
                                                std::vector<SpecError>& errors) {
    KubernetesSpread spread;
    const std::vector<ItemKey> keys = {
        text_key("topology_key", "a label of nodes", spread.topology_key),
        {"max_skew", "a whole number >= 1",
         [&](const Value& value) {
             const auto number = whole_number(value, 1);
             spread.max_skew = number.value_or(1);
             return number.has_value();
         }},
        word_key("when_unsatisfiable", {"DoNotSchedule", "ScheduleAnyway"},
                 spread.when_unsatisfiable)};
    if (item.is_scalar() && is_some_text(item)) {
        spread.topology_key = item.text;
        return spread;
    }
    if (!read_item(item, path, keys, errors))
        return std::nullopt;
    if (!spread.topology_key.empty())
        return spread;
    errors.push_back(error_at(
        item.at, path, "says not over what: add topology_key, such as kubernetes.io/hostname"));
    return std::nullopt;
}

/// A list of what `read` reads of each item.
template <class T, class Read>
bool read_list(const Value& value, const std::string& path, std::vector<T>& field,
               std::vector<SpecError>& errors, Read read) {
    if (!value.is_sequence())
        return false;
    std::vector<T> list;
    for (std::size_t i = 0; i < value.items.size(); ++i)
        if (auto item = read(value.items[i], item_path(path, i), errors))
            list.push_back(std::move(*item));
    field = std::move(list);
    return true;
}

}  // namespace

bool is_dns_label(std::string_view text, std::size_t longest) {
    return !text.empty() && text.size() <= longest && is_lower_or_digit(text.front()) &&
           is_lower_or_digit(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
               return is_lower_or_digit(c) || c == '-';
           });
}

bool is_dns_name(std::string_view text) {
    constexpr std::size_t kLongest = 253;
    const auto labels = split(text, '.');
    return text.size() <= kLongest &&
           std::all_of(labels.begin(), labels.end(),
                       [](const std::string& label) { return is_dns_label(label, kLongest); });
}

bool is_resource_name(std::string_view text) {
    const std::size_t slash = text.find('/');
    return slash != std::string_view::npos && is_dns_name(text.substr(0, slash)) &&
           is_qualified_word(text.substr(slash + 1));
}

bool read_tolerations(const Value& value, const std::string& path,
                      std::vector<KubernetesToleration>& field, std::vector<SpecError>& errors) {
    return read_list(value, path, field, errors, read_toleration);
}

bool read_spread(const Value& value, const std::string& path, std::vector<KubernetesSpread>& field,
                 std::vector<SpecError>& errors) {
    if (!value.is_scalar())
        return read_list(value, path, field, errors, read_one_spread);
    const auto one = is_some_text(value) ? read_one_spread(value, path, errors) : std::nullopt;
    if (one)
        field = {*one};
    return one.has_value();
}

bool read_volumes(const Value& value, const std::string& path, std::vector<KubernetesVolume>& field,
                  std::vector<SpecError>& errors) {
    const std::size_t before = errors.size();
    if (!read_list(value, path, field, errors, read_volume))
        return false;
    if (errors.size() != before)
        return true;
    for (std::size_t i = 0; i < field.size(); ++i)
        for (std::size_t other = 0; other < i; ++other)
            if (field[i].mount == field[other].mount)
                errors.push_back(error_at(value.items[i].at, item_path(path, i),
                                          field[i].mount + " is the mount of another one, too"));
    return true;
}

bool read_counted_resources(const Value& value, const std::string& path,
                            std::map<std::string, int>& field, std::vector<SpecError>& errors) {
    if (!value.is_mapping())
        return false;
    std::map<std::string, int> counts;
    for (const Entry& entry : value.entries) {
        const auto number = whole_number(entry.value, 1);
        if (!is_resource_name(entry.key))
            errors.push_back(error_at(entry.key_at, path + '.' + entry.key,
                                      "is no name of a resource, such as rdma/hca_shared_devices"));
        else if (!number)
            errors.push_back(
                error_at(entry.value.at, path + '.' + entry.key,
                         "expected a whole number >= 1; found " + describe(entry.value)));
        else
            counts[entry.key] = *number;
    }
    field = std::move(counts);
    return true;
}

bool read_hugepages(const Value& value, const std::string& path,
                    std::map<std::string, std::int64_t>& field, std::vector<SpecError>& errors) {
    if (!value.is_mapping())
        return false;
    std::map<std::string, std::int64_t> sizes;
    for (const Entry& entry : value.entries) {
        const std::string where = path + '.' + entry.key;
        const bool is_page =
            entry.key.ends_with("Ki") || entry.key.ends_with("Mi") || entry.key.ends_with("Gi");
        const auto page = is_page ? bytes_from(entry.key + 'B') : std::nullopt;
        const auto bytes = entry.value.is_scalar() ? bytes_from(entry.value.text) : std::nullopt;
        if (page.value_or(0) <= 0)
            errors.push_back(
                error_at(entry.key_at, where, "is no size of a page, such as 2Mi or 1Gi"));
        else if (bytes.value_or(0) <= 0)
            errors.push_back(error_at(
                entry.value.at, where,
                "expected how much of them, a size such as 4GiB; found " + describe(entry.value)));
        else if (*bytes % *page != 0)
            errors.push_back(
                error_at(entry.value.at, where, "is no whole number of pages of " + entry.key));
        else
            sizes[entry.key] = *bytes;
    }
    field = std::move(sizes);
    return true;
}

bool read_secret_key(const Value& value, KubernetesSecretKey& field) {
    const auto parts = value.is_scalar() ? split(value.text, '/') : std::vector<std::string>();
    constexpr std::size_t kLongestKey = 253;
    const bool good = parts.size() == 2 && is_dns_name(parts[0]) && !parts[1].empty() &&
                      parts[1].size() <= kLongestKey && parts[1] != "." && parts[1] != ".." &&
                      std::all_of(parts[1].begin(), parts[1].end(), [](char c) {
                          return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
                      });
    if (good)
        field = {parts[0], parts[1]};
    return good;
}

bool read_secret_keys(const Value& value, const std::string& path,
                      std::map<std::string, KubernetesSecretKey>& field,
                      std::vector<SpecError>& errors) {
    if (!value.is_mapping())
        return false;
    std::map<std::string, KubernetesSecretKey> keys;
    for (const Entry& entry : value.entries)
        if (!read_secret_key(entry.value, keys[entry.key]))  // not quoted: it may be the secret
            errors.push_back(
                error_at(entry.value.at, path + '.' + entry.key,
                         "expected SECRET/KEY, a Secret of the cluster and a key in it"));
    field = std::move(keys);
    return true;
}

}  // namespace autolaunch::launcher
