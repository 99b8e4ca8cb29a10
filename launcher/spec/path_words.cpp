#include "spec/path_words.hpp"

#include "base/url.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>

namespace autolaunch::launcher {

namespace {

/// A key whose value is a path; with `inner` that of each entry of a list.
struct PathKey {
    const char* section;
    const char* key;
    const char* inner = nullptr;
    bool takes_urls = false;  ///< else none but a folder makes sense
};

constexpr PathKey kPathKeys[] = {{"trainer", "workdir"},
                                 {"monitoring", "log_path"},
                                 {"storage", "scratch"},
                                 {"storage", "stage_in", "from", true},
                                 {"storage", "stage_out", "to", true},
                                 {"checkpoint", "checkpoint_dir", nullptr, true},
                                 {"checkpoint", "drain", nullptr, true},
                                 {"checkpoint", "tiers", "place", true},
                                 {"checkpoint", "restore_from", nullptr, true},
                                 {"checkpoint", "signing_key"},
                                 {"checkpoint", "recipients_file"},
                                 {"checkpoint", "identity_file"},
                                 {"checkpoint", "authentication_key_file"}};

/// "$HOME/x": HOME. Empty: it begins with no variable of a shell's.
std::string variable_at_begin(const std::string& text) {
    const auto is_of_name = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    if (text.size() < 2 || text[0] != '$' || !is_of_name(text[1]) || std::isdigit(text[1]) != 0)
        return {};
    const auto end = std::find_if_not(text.begin() + 1, text.end(), is_of_name);
    return std::string(text.begin() + 1, end);
}

std::string why_no_path(const std::string& text, bool takes_urls) {
    if (text.starts_with('~') && (text.size() == 1 || text[1] == '/'))
        return "is no path: no shell reads it; write ${HOME}" + text.substr(1) +
               (text.size() == 1 ? "" : ", or ./" + text + " for a folder of that name");
    if (const std::string variable = variable_at_begin(text); !variable.empty())
        return "is no path: no shell reads it; write ${" + variable + "}" +
               text.substr(1 + variable.size());
    if (!takes_urls && is_url(text))
        return "is no folder or file of this machine, but an address";
    return {};
}

void check_path(const Entry& entry, const std::string& path, bool takes_urls,
                std::vector<SpecError>& errors) {
    if (!entry.value.is_scalar() || entry.value.secret)
        return;
    if (const std::string why = why_no_path(entry.value.text, takes_urls); !why.empty())
        errors.push_back(error_at(entry.value.at, path, shown_url(entry.value.text) + ' ' + why));
}

}  // namespace

void check_paths(const Value& root, std::vector<SpecError>& errors) {
    for (const PathKey& key : kPathKeys) {
        const Entry* const section = root.find(key.section);
        if (section == nullptr || !section->value.is_mapping())
            continue;
        const Entry* const entry = section->value.find(key.key);
        const std::string path = std::string(key.section) + '.' + key.key;
        if (entry == nullptr)
            continue;
        if (key.inner == nullptr) {
            check_path(*entry, path, key.takes_urls, errors);
            continue;
        }
        for (std::size_t i = 0; entry->value.is_sequence() && i < entry->value.items.size(); ++i) {
            const Value& item = entry->value.items[i];
            const Entry* const inner = item.is_mapping() ? item.find(key.inner) : nullptr;
            if (inner != nullptr)
                check_path(*inner, path + '[' + std::to_string(i) + "]." + key.inner,
                           key.takes_urls, errors);
        }
    }
}

}  // namespace autolaunch::launcher
