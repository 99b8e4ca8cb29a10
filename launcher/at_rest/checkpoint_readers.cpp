#include "at_rest/checkpoint_readers.hpp"

#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "checkpoint/age/age_keys.hpp"
#include "spec/scalar.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
// A file's header holds a stanza of each, and has 64 KiB (docs/encryption.md).
constexpr std::size_t kMaxRecipients = 256;
constexpr char kKey[] = "checkpoint.recipients";
constexpr char kFileKey[] = "checkpoint.recipients_file";

Origin place_of_key(const Value& section, const char* key) {
    const Entry* entry = section.find(key);
    return entry == nullptr ? section.at : entry->value.at;
}

// A secret key in the place of a public one is a mistake that must not be repeated on a screen.
std::string why_none(const std::string& text) {
    if (text.starts_with("AGE-SECRET-KEY-"))
        return "this is a secret key; age-keygen -y FILE prints its public half, age1...";
    if (text.starts_with("ssh-"))
        return "keys of SSH are not supported; age-keygen -o key.txt makes one of age";
    try {
        age::Recipient::parse(text);
        return {};
    } catch (const Error& error) {
        return std::string(error.what()) +
               " (age-keygen -o key.txt makes a key, and prints its "
               "public half)";
    }
}

void check_given(const std::vector<std::string>& recipients, const Value& section,
                 std::vector<SpecError>& errors) {
    const Entry* entry = section.find("recipients");
    for (std::size_t i = 0; i < recipients.size(); ++i) {
        const std::string why = why_none(recipients[i]);
        if (why.empty())
            continue;
        const bool known = entry != nullptr && i < entry->value.items.size();
        errors.push_back(error_at(known ? entry->value.items[i].at : section.at,
                                  std::string(kKey) + "[" + std::to_string(i) + "]", why));
    }
}

void read_file_of(CheckpointSpec& checkpoint, const Value& section,
                  std::vector<SpecError>& errors) {
    const std::string& file = checkpoint.recipients_file;
    const Origin at = place_of_key(section, "recipients_file");
    const std::size_t before = checkpoint.recipients.size();
    try {
        const std::string text = read_at_most(file, kMaxBytes);
        if (text.size() > kMaxBytes)
            return errors.push_back(error_at(at, kFileKey, file + " has more than 1 MiB"));
        int number = 0;
        for (const std::string& whole : split(text, '\n')) {
            const std::string line(trim(whole));
            ++number;
            if (line.empty() || line.front() == '#')
                continue;
            if (const std::string why = why_none(line); !why.empty())
                errors.push_back(
                    error_at(at, kFileKey, file + ":" + std::to_string(number) + ": " + why));
            checkpoint.recipients.push_back(line);
        }
    } catch (const Error& error) {
        SpecError unreadable = error_at(at, kFileKey, error.what());
        unreadable.unreadable = true;
        return errors.push_back(std::move(unreadable));
    }
    if (checkpoint.recipients.size() == before)
        errors.push_back(error_at(at, kFileKey, file + " names nobody: a public key a line"));
}

void keep_each_once(std::vector<std::string>& recipients) {
    std::vector<std::string> kept;
    for (std::string& recipient : recipients)
        if (std::find(kept.begin(), kept.end(), recipient) == kept.end())
            kept.push_back(std::move(recipient));
    recipients = std::move(kept);
}

void make_absolute(std::string& path) {
    if (!path.empty())
        path = absolute_path(path).string();
}

bool saves(const CheckpointSpec& checkpoint) {
    return checkpoint.enabled || !checkpoint.checkpoint_dir.empty() || checkpoint.every_steps;
}

}  // namespace

void settle_readers(CheckpointSpec& checkpoint, const Value& section,
                    std::vector<SpecError>& errors) {
    check_given(checkpoint.recipients, section, errors);
    if (!checkpoint.recipients_file.empty())
        read_file_of(checkpoint, section, errors);
    keep_each_once(checkpoint.recipients);
    if (checkpoint.recipients.size() > kMaxRecipients)
        errors.push_back(error_at(place_of_key(section, "recipients"), kKey,
                                  std::to_string(checkpoint.recipients.size()) +
                                      " recipients; at most " + std::to_string(kMaxRecipients)));
    make_absolute(checkpoint.identity_file);
    make_absolute(checkpoint.authentication_key_file);
}

void require_readers(CheckpointSpec& checkpoint, const Value& section, const SiteSettings& site,
                     std::vector<SpecError>& errors) {
    const SiteSetting* wanted = site.find("data_security.encryption_at_rest");
    if (wanted == nullptr || !boolean_from(wanted->value.text).value_or(false))
        return;
    checkpoint.must_be_encrypted = true;
    if (!checkpoint.recipients.empty() || !saves(checkpoint))
        return;
    errors.push_back(error_at(
        section.at, kKey,
        "data_security.encryption_at_rest is true (" + place_of(wanted->value.at) +
            "), and nobody is named who may open this job's checkpoints; add below checkpoint: "
            "recipients: [age1...] (age-keygen -o key.txt makes a key, and prints its public "
            "half)"));
}

}  // namespace autolaunch::launcher
