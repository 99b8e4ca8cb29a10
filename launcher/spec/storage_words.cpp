#include "spec/storage_words.hpp"

#include "base/hash.hpp"
#include "base/private_way.hpp"
#include "base/text.hpp"
#include "base/url.hpp"
#include "spec/mapping_reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kSha256 = "sha256:";
constexpr std::size_t kMostItems = 64, kMostName = 64;
const std::vector<std::string> kItemKeys = {"from", "as", "verify", "unpack", "start"};

/// Below the source: it is looked for there, and nowhere else.
bool is_name_below(const std::string& text) {
    const auto names = split(text, '/');
    return std::none_of(names.begin(), names.end(), [](const std::string& name) {
        return name.empty() || name == "." || name == "..";
    });
}

bool is_digest(const std::string& text) {
    std::array<std::uint8_t, 32> digest{};
    return parse_hex(std::string_view(text).substr(kSha256.size()), digest);
}

/// Empty: no name of an archive's.
std::string archive_word(const std::string& name) {
    for (const char* end : {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"})
        if (name.ends_with(end))
            return "tar";
    return name.ends_with(".zip") ? "zip" : "";
}

/// Empty: it is a path, or an address of something that can be staged.
std::string why_no_address(const std::string& text) {
    if (!is_url(text))
        return {};
    const std::string scheme = scheme_of(text);
    const std::string rest = text.substr(text.find("://") + 3);
    const std::string host = rest.substr(0, rest.find_first_of("/?#"));
    if (scheme == "s3")
        return host.empty() ? "names no bucket: write s3://bucket/key, or s3://bucket/folder/"
                            : std::string();
    if (scheme != "http" && scheme != "https")
        return "what is staged is a path, or an address of s3, https or http";
    if (host.find('@') != std::string::npos)
        return "has a user in it: name a signed address, or a file that everybody may read";
    if (host.empty() || name_in_url(text).empty())
        return "names no file of a server: of https and http single files are staged";
    return {};
}

class ItemReader : MappingReader {
public:
    ItemReader(std::string path, std::vector<SpecError>& errors)
        : MappingReader(std::move(path), errors) {}

    bool read(const Value& value, StageInSpec& item) {
        if (!value.is_mapping()) {
            complain(value.at, path_,
                     "expected {from: /shared/data, as: NAME}; found " + describe(value));
            return false;
        }
        for (const Entry& entry : value.entries)
            read_key(entry, item);
        for (const char* needed : {"from", "as"})
            if (value.find(needed) == nullptr)
                complain(
                    value.at, path_,
                    std::string("says not ") + needed + ": " +
                        (needed[0] == 'f' ? "what is staged" : "a name for ranks to find it by"));
        check_way(value, item);
        check_unpack(value, item);
        check_start(value, item);
        return good_;
    }

private:
    /// What comes in the clear could be changed on its way, unless its digest is known.
    void check_way(const Value& value, const StageInSpec& item) {
        if (scheme_of(item.from) != "http" || item.verify.starts_with(kSha256))
            return;
        if (const std::string why = why_not_private(item.from); !why.empty())
            complain(value.at, path_ + ".from",
                     shown_url(item.from) + ": " + why +
                         ": write https://, or name the file's digest, verify: \"sha256:…\"");
    }

    /// true: by its name.
    void check_unpack(const Value& value, StageInSpec& item) {
        const Entry* const unpack = value.find("unpack");
        if (item.unpack != "true" || unpack == nullptr)
            return;
        item.unpack = archive_word(is_url(item.from) ? name_in_url(item.from) : item.from);
        if (item.unpack.empty())
            complain(
                unpack->value.at, path_ + ".unpack",
                "is true, and the name of " + shown_url(item.from) +
                    " does not end with .tar, .tar.gz, .tgz, .tar.zst, .tzst or .zip: write tar "
                    "or zip");
    }

    /// Ranks are told beforehand what will be there.
    void check_start(const Value& value, const StageInSpec& item) {
        const Entry* const start = value.find("start");
        if (item.streams && start != nullptr && !item.unpack.empty())
            complain(start->value.at, path_ + ".start",
                     "is streaming, and what an archive holds is known once all of it is "
                     "unpacked: write all, or stage what was unpacked before");
    }

    void read_key(const Entry& entry, StageInSpec& item) {
        const std::string& text = entry.value.text;
        if (entry.key == "from") {
            if (!is_text(entry.value))
                return expected(entry, "a folder, a file, s3://bucket/…, or https://…");
            item.from = text;
            if (const std::string why = why_no_address(text); !why.empty())
                complain(entry.value.at, path_ + ".from", shown_url(text) + ": " + why);
        } else if (entry.key == "as") {
            if (!entry.value.is_scalar() || !is_data_name(text))
                return expected(entry, "a name of letters, digits and _, up to 64");
            item.name = text;
        } else if (entry.key == "verify") {
            if (!is_text(entry.value) ||
                (text.starts_with(kSha256) ? !is_digest(text) : !is_name_below(text)))
                return expected(entry,
                                "sha256: and 64 hexadecimal digits of a file, or the name of a "
                                "list below the folder, as sha256sum writes one (SHA256SUMS)");
            item.verify = text;
        } else if (entry.key == "unpack") {
            if (text != "true" && text != "false" && text != "tar" && text != "zip")
                return expected(entry, "true (by its name), tar (also with gzip or zstd) or zip");
            item.unpack = text == "false" ? "" : text;
        } else if (entry.key == "start") {
            if (text != "all" && text != "streaming")
                return expected(entry,
                                "all (ranks start once all of it is there) or streaming "
                                "(they start at once, and its files come one by one)");
            item.streams = text == "streaming";
        } else {
            unknown(entry, kItemKeys);
        }
    }
};

std::string in_capitals(std::string variable) {
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return variable;
}

}  // namespace

bool is_data_name(const std::string& name) {
    return !name.empty() && name.size() <= kMostName &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
               return c < 0x80 && (std::isalnum(c) != 0 || c == '_');
           });
}

std::string data_variable(const std::string& name) {
    return in_capitals("AUTOLAUNCH_DATA_" + name);
}

std::string out_variable(const std::string& name) { return in_capitals("AUTOLAUNCH_OUT_" + name); }

bool read_stage_in(const Value& value, const std::string& path, std::vector<StageInSpec>& items,
                   std::vector<SpecError>& errors) {
    if (!value.is_sequence())
        return false;
    items.clear();
    for (std::size_t i = 0; i < value.items.size(); ++i) {
        const std::string its = path + '[' + std::to_string(i) + ']';
        StageInSpec item;
        if (!ItemReader(its, errors).read(value.items[i], item))
            continue;
        for (const StageInSpec& other : items)
            if (data_variable(other.name) == data_variable(item.name))
                errors.push_back(error_at(value.items[i].at, its + ".as",
                                          "\"" + item.name + "\" is the name of " +
                                              shown_url(other.from) +
                                              " already: of one name there is one version in a "
                                              "job; give this one another name"));
        items.push_back(std::move(item));
    }
    if (items.size() > kMostItems)
        errors.push_back(
            error_at(value.at, path, "has more than " + std::to_string(kMostItems) + " entries"));
    return true;
}

}  // namespace autolaunch::launcher
