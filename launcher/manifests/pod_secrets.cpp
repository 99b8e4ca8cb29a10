#include "manifests/pod_secrets.hpp"

#include "base/text.hpp"
#include "manifests/pod_facts.hpp"
#include "manifests/tree.hpp"
#include "secrets/secrets.hpp"
#include "spec/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr const char* kHowToMake =
    "name the Secret of the cluster that has it: kubernetes: {{secrets: {{{0}: SECRET/KEY}}}}, "
    "made "
    "by `{1}kubectl create secret generic SECRET --from-file=KEY={2}`";

void check_source(const SecretSpec& secret, const SpecResult& read, Manifests& result) {
    using Source = SecretSpec::Source;
    const KubernetesSpec& pods = read.spec.kubernetes;
    const Entry* entry = find_key(read.root, "secrets", secret.name);
    if (entry == nullptr || pods.secrets.contains(secret.name))
        return;
    const std::string key = "secrets." + secret.name;
    const auto complain = [&](const std::string& what, const std::string& fix) {
        result.errors.push_back(error_at(entry->key_at, key, what + "; " + fix));
    };
    switch (secret.source) {
        case Source::file:
        case Source::vault_transit:
            if (volume_of(pods, secret.file) == nullptr)
                complain(fmt::format("{} is a file here and in no volume of the pods", secret.file),
                         fmt::format(fmt::runtime(kHowToMake), secret.name, "", secret.file));
            return;
        case Source::command:
            complain(
                "a command of this machine gives it, and none in the pods",
                fmt::format(fmt::runtime(kHowToMake), secret.name, "COMMAND | ", "/dev/stdin"));
            return;
        case Source::vault:
            if (find_key(read.root, "vault", "address") == nullptr)
                result.notes.push_back(fmt::format(
                    "{} comes from Vault: the pods need its address, as vault.address or as "
                    "VAULT_ADDR in the image",
                    key));
            return;
    }
}

void check_names(const SpecResult& read, Manifests& result) {
    std::vector<std::string> names;
    for (const SecretSpec& secret : read.spec.given_secrets)
        names.push_back(secret.name);
    const Entry* section = find_key(read.root, "kubernetes", "secrets");
    for (const auto& [name, key] : read.spec.kubernetes.secrets) {
        if (section == nullptr || std::find(names.begin(), names.end(), name) != names.end())
            continue;
        const Entry* entry = section->value.find(name);
        const std::string near = nearest(name, names);
        result.errors.push_back(error_at(
            entry == nullptr ? section->key_at : entry->key_at, "kubernetes.secrets." + name,
            near.empty()
                ? fmt::format("`secrets` has no {0}: say there who gets it, as in secrets: "
                              "{{{0}: {{file: PATH}}}}",
                              name)
                : fmt::format("`secrets` has no {}; did you mean \"{}\"?", name, near)));
    }
}

/// A key of ours whose name looks like a secret's has the name of a file or of a Secret.
bool names_a_place(const Section* section, const std::string& key) {
    return section != nullptr && section->find(key) != nullptr &&
           (names_secret(key) || section->name == "kubernetes");
}

/// `known` are values that variables with secret names have here.
void check_values(const Value& value, const std::string& path, bool only_shape,
                  const std::vector<std::string>& known, Manifests& result) {
    const bool looks_so =
        value.is_scalar() && !value.text.empty() &&
        ((value.secret && !only_shape) || mask_secrets(value.text, known) != value.text);
    if (looks_so)
        result.errors.push_back(error_at(
            value.at, path,
            "holds a secret, and the spec travels as a ConfigMap, which is no place for one: say "
            "under `secrets` which ranks get it, and under kubernetes.secrets which Secret has it "
            "(docs/guides/kubernetes.md)"));
    std::vector<std::string> words;
    for (const Value& item : value.items)
        words.push_back(item.is_scalar() ? item.text : std::string());
    const std::vector<std::string> masked = mask_arguments(words);
    for (std::size_t i = 0; i < value.items.size(); ++i) {
        Value item = value.items[i];
        item.secret = item.secret || masked[i] != words[i];  // --token VALUE
        check_values(item, fmt::format("{}[{}]", path, i), only_shape, known, result);
    }
    for (const Entry& entry : value.entries)
        check_values(entry.value, path + '.' + entry.key, only_shape, known, result);
}

}  // namespace

void check_pod_secrets(const SpecResult& read, Manifests& result) {
    check_names(read, result);
    for (const SecretSpec& secret : read.spec.given_secrets)
        check_source(secret, read, result);
    const std::vector<std::string>& known = read.spec.secrets;
    for (const Entry& entry : read.root.entries) {
        const Section* section = find_section(entry.key);
        if (section != nullptr && section->of_secrets)
            continue;  // places, and their reader has refused values
        if (!entry.value.is_mapping()) {
            check_values(entry.value, entry.key, false, known, result);
            continue;
        }
        if (entry.key == "slurm_config")
            continue;  // it does not travel
        for (const Entry& inner : entry.value.entries)
            check_values(inner.value, entry.key + '.' + inner.key,
                         names_a_place(section, inner.key), known, result);
    }
}

}  // namespace autolaunch::launcher
