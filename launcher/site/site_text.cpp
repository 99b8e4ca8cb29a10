#include "site/site_text.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace autolaunch::launcher {

namespace {

using SiteRow = std::vector<std::string>;

std::string aligned(const std::vector<SiteRow>& rows) {
    std::vector<std::size_t> widths(rows.front().size());
    for (const SiteRow& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    std::string text;
    for (const SiteRow& row : rows) {
        std::string line = "  ";
        for (std::size_t i = 0; i + 1 < row.size(); ++i)
            line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
        text += line + row.back() + '\n';
    }
    return text;
}

std::string origin_of(const SiteKey& key) { return key.file + ':' + std::to_string(key.line); }

}  // namespace

std::string site_table(const SiteRecord& record) {
    std::vector<SiteRow> rows = {{"KEY", "VALUE", "FROM", "BY", "STATE", "WHY"}};
    for (const SiteKey& key : record.keys)
        rows.push_back({key.key, key.value, origin_of(key), key.enforced_by, key.state, key.why});
    std::string text = rows.size() > 1 ? aligned(rows) : "";
    if (!record.decision.empty())
        text += "  roles: " + record.decision + '\n';
    for (const std::string& note : record.notes)
        text += "  - " + note + '\n';
    return text;
}

void put_site(JsonText& json, const SiteRecord* record) {
    if (record == nullptr)
        return json.put(nullptr);
    json.object([&] {
        json.member("file", record->file);
        json.member("keys", [&] {
            json.array(record->keys, [&](const SiteKey& key) {
                json.object([&] {
                    json.member("key", key.key);
                    json.member("value", key.value);
                    json.member("file", key.file);
                    json.member("line", key.line);
                    json.member("enforced_by", key.enforced_by);
                    json.member("state", key.state);
                    json.member("why", key.why);
                });
            });
        });
        json.member("decision", record->decision);
        json.member("notes", record->notes);
    });
}

}  // namespace autolaunch::launcher
