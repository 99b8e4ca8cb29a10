#include "spec/secret_words.hpp"

#include "base/text.hpp"
#include "spec/mapping_reader.hpp"
#include "spec/rank_words.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostSecrets = 64;
constexpr std::string_view kExpected =
    "{file: PATH}, {command: [PROGRAM, ARGUMENT]}, {vault: \"PATH#KEY\"} or {vault_transit: FILE}";
const std::vector<std::string> kSecretKeys = {"file", "command", "vault",   "vault_transit",
                                              "as",   "ranks",   "programs"};

/// One entry of the section.
class SecretReader : MappingReader {
public:
    SecretReader(const Entry& entry, std::vector<SpecError>& errors)
        : MappingReader("secrets." + entry.key, errors), entry_(entry) {}

    std::optional<SecretSpec> read();

private:
    void read_key(const Entry& entry);
    bool read_texts(const Entry& entry, std::vector<std::string>& texts, const std::string& what);
    void read_vault(const Entry& entry);

    const Entry& entry_;
    SecretSpec secret_;
    std::vector<std::string> sources_;
    bool has_ranks_ = false;
};

std::optional<SecretSpec> SecretReader::read() {
    secret_.name = entry_.key;
    if (const std::string why = why_no_secret_name(entry_.key); !why.empty())
        complain(entry_.key_at, path_, why);
    const Value& value = entry_.value;
    // It is not quoted: who writes the secret itself here has made that very mistake.
    if (!value.is_mapping()) {
        complain(value.at, path_,
                 "expected where it comes from: " + std::string(kExpected) +
                     "; a secret itself does not belong in a spec, which others read");
        return std::nullopt;
    }
    for (const Entry& inner : value.entries)
        read_key(inner);
    if (sources_.empty() && good_)
        complain(value.at, path_, "says not where it comes from: " + std::string(kExpected));
    if (sources_.size() > 1)
        complain(value.at, path_, "has " + join(sources_, " and ") + "; it comes from one of them");
    if (has_ranks_ && !secret_.programs.empty())
        complain(value.at, path_, "has ranks and programs; either says who gets it");
    return good_ ? std::optional(secret_) : std::nullopt;
}

void SecretReader::read_key(const Entry& entry) {
    const Value& value = entry.value;
    if (entry.key == "file") {
        sources_.push_back(entry.key);
        is_text(value) ? void(secret_.file = value.text) : expected(entry, "the path of a file");
        secret_.source = SecretSpec::Source::file;
    } else if (entry.key == "command") {
        sources_.push_back(entry.key);
        secret_.source = SecretSpec::Source::command;
        if (read_texts(entry, secret_.command, "a list: the program and its arguments") &&
            secret_.command.front().empty())
            expected(entry, "a list whose first item names a program");
    } else if (entry.key == "vault") {
        sources_.push_back(entry.key);
        read_vault(entry);
    } else if (entry.key == "vault_transit") {
        sources_.push_back(entry.key);
        is_text(value) ? void(secret_.file = value.text)
                       : expected(entry, "a file that ckpt keygen --vault-transit has written");
        secret_.source = SecretSpec::Source::vault_transit;
    } else if (entry.key == "as") {
        secret_.as = value.text == "file" ? SecretSpec::As::file : SecretSpec::As::environment;
        if (!value.is_scalar() || (value.text != "file" && value.text != "environment"))
            expected(entry, "environment or file");
    } else if (entry.key == "ranks") {
        has_ranks_ = true;
        if (value.is_scalar() && rank_set_from(value.text))
            secret_.ranks = value.text;
        else
            expected(entry, "all, or ranks such as 0 or \"0,3-5\"");
    } else if (entry.key == "programs") {
        read_texts(entry, secret_.programs, "a list of roles, as --role names them");
    } else {
        unknown(entry, kSecretKeys);
    }
}

bool SecretReader::read_texts(const Entry& entry, std::vector<std::string>& texts,
                              const std::string& what) {
    const Value& value = entry.value;
    const bool fits = value.is_sequence() && !value.items.empty() &&
                      std::all_of(value.items.begin(), value.items.end(), [](const Value& item) {
                          return item.is_scalar() && item.text.find('\0') == std::string::npos;
                      });
    if (!fits) {
        expected(entry, what);
        return false;
    }
    for (const Value& item : value.items)
        texts.push_back(item.text);
    return true;
}

void SecretReader::read_vault(const Entry& entry) {
    secret_.source = SecretSpec::Source::vault;
    if (!entry.value.is_scalar() ||
        !split_vault_address(entry.value.text, secret_.vault_path, secret_.vault_key))
        expected(entry, "a path and a key, such as \"kv/team/hub#token\" (in quotes)");
}

bool is_path_byte(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte != 0x7f && c != '?' && c != '#' && c != '%' && c != '\\';
}

}  // namespace

std::string why_no_secret_name(const std::string& name) {
    const auto is_name_byte = [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x80 && (std::isalnum(byte) != 0 || c == '_');
    };
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 ||
        !std::all_of(name.begin(), name.end(), is_name_byte))
        return "is no name of a variable: letters, digits and _, and no digit first";
    if (name.starts_with("AUTOLAUNCH_"))
        return "is a name that autolaunch has for itself";
    return {};
}

bool split_vault_address(const std::string& text, std::string& path, std::string& key) {
    const std::size_t mark = text.find('#');
    if (mark == std::string::npos || mark + 1 == text.size() ||
        text.find('\0') != std::string::npos)
        return false;
    std::string_view front = std::string_view(text).substr(0, mark);
    while (front.starts_with('/'))
        front.remove_prefix(1);
    const auto parts = split(front, '/');
    const bool good = parts.size() >= 2 && std::all_of(front.begin(), front.end(), is_path_byte) &&
                      std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
                          return part.empty() || part == "." || part == "..";
                      });
    if (!good)
        return false;
    path = front;
    key = text.substr(mark + 1);
    return true;
}

void read_secrets(const Value& section, std::vector<SecretSpec>& secrets,
                  std::vector<SpecError>& errors) {
    secrets.clear();
    if (section.is_null())
        return;
    if (!section.is_mapping()) {
        errors.push_back(error_at(section.at, "secrets",
                                  "expected a mapping of names to " + std::string(kExpected)));
        return;
    }
    for (const Entry& entry : section.entries)
        if (!entry.value.is_null())  // an override takes it away
            if (auto secret = SecretReader(entry, errors).read())
                secrets.push_back(std::move(*secret));
    if (secrets.size() > kMostSecrets)
        errors.push_back(error_at(section.at, "secrets",
                                  "has more than " + std::to_string(kMostSecrets) + " entries"));
}

void check_secret_names(const Value& root, const std::vector<SecretSpec>& secrets,
                        std::vector<SpecError>& errors) {
    const Entry* section = root.find("secrets");
    if (section == nullptr)
        return;
    for (const SecretSpec& secret : secrets) {
        const Entry* entry = section->value.find(secret.name);
        std::vector<std::string> variables = {secret.name};
        if (secret.as == SecretSpec::As::file)
            variables.push_back(secret.name + "_FILE");
        for (const std::string& variable : variables) {
            for (const char* other : {"trainer", "nccl"}) {
                const Entry* found = root.find(other);
                const Entry* env = found == nullptr ? nullptr : found->value.find("env");
                if (entry != nullptr && env != nullptr && env->value.find(variable) != nullptr)
                    errors.push_back(error_at(entry->key_at, "secrets." + secret.name,
                                              std::string(other) + ".env." + variable +
                                                  " sets the same variable; remove one of them"));
            }
            if (variable != secret.name && section->value.find(variable) != nullptr)
                errors.push_back(error_at(entry->key_at, "secrets." + secret.name,
                                          "as a file it is named by " + variable +
                                              ", which is a secret of its own here"));
        }
    }
}

void check_identity_secret(const Value& root, const std::vector<SecretSpec>& secrets,
                           std::vector<SpecError>& errors) {
    const Entry* section = root.find("checkpoint");
    const Entry* entry = section == nullptr ? nullptr : section->value.find("identity_secret");
    if (entry == nullptr || !is_text(entry->value))
        return;
    const std::string& name = entry->value.text;
    const auto complain = [&](const std::string& why) {
        errors.push_back(error_at(entry->value.at, "checkpoint.identity_secret", why));
    };
    const auto found =
        std::find_if(secrets.begin(), secrets.end(),
                     [&name](const SecretSpec& secret) { return secret.name == name; });
    if (found == secrets.end())
        complain("there is no secrets." + name);
    else if (found->as != SecretSpec::As::file)
        complain("the library reads keys from files: add as: file to secrets." + name);
    if (const Entry* file = section->value.find("identity_file"); file && is_text(file->value))
        complain("identity_file names a key, too; remove one of them");
}

}  // namespace autolaunch::launcher
