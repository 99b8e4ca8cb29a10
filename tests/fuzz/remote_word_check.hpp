#pragma once
#include "archives/archive_paths.hpp"
#include "base/text.hpp"
#include "base/url.hpp"
#include "exit_codes/exit_error.hpp"
#include "remote_data/http_date.hpp"
#include "remote_data/object_tree.hpp"
#include "stage_cache/held_tree.hpp"
#include "stage_cache/tree.hpp"

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Every entry of it may be here: written as a listing, it reads the same.
inline std::size_t check_tree_of_others(const Tree& tree) {
    const std::string text = listing_text("s3://b/", tree);
    if (listing_text("s3://b/", parse_listing_text(text)) != text)
        std::abort();
    return tree.entries.size();
}

inline std::size_t check_objects(const std::vector<std::string>& lines) {
    std::vector<s3::Object> objects;
    for (const std::string& line : lines)
        objects.push_back({.key = line, .bytes = line.size() % 3, .etag = line});
    try {
        return check_tree_of_others(tree_of_objects(objects, "s3://b/"));
    } catch (const ExitError&) {
        return 0;
    }
}

/// Lines of a kind (d, f, l, h, x), a mode and a path, with "->" before a target.
inline std::size_t check_archive(const std::vector<std::string>& lines) {
    ArchivePaths paths("a.tar");
    std::map<std::string, TreeEntry> placed;
    try {
        for (const std::string& line : lines) {
            if (line.size() < 2)
                continue;
            ArchivedEntry entry;
            const std::size_t arrow = line.find("->");
            entry.path = line.substr(2, arrow == std::string::npos ? arrow : arrow - 2);
            entry.target = arrow == std::string::npos || arrow < 2 ? "" : line.substr(arrow + 2);
            entry.mode = static_cast<unsigned char>(line[1]) * 64U;
            entry.kind = line[0] == 'd'   ? ArchivedEntry::Kind::folder
                         : line[0] == 'f' ? ArchivedEntry::Kind::file
                         : line[0] == 'l' ? ArchivedEntry::Kind::link
                         : line[0] == 'h' ? ArchivedEntry::Kind::hard_link
                                          : ArchivedEntry::Kind::other;
            const auto one = paths.place(entry);
            for (const std::string& folder : one.new_folders) {
                placed[folder].path = folder;
                placed[folder].kind = TreeEntry::Kind::folder;
            }
            if (one.is_to_make && !placed.emplace(one.entry.path, one.entry).second)
                std::abort();  // twice
            if (!one.same_as.empty())
                placed[one.entry.path].mode = placed.at(one.same_as).mode;
        }
    } catch (const ExitError&) {
        // What came before it is still a tree.
    }
    Tree tree;
    for (auto& [path, entry] : placed) {
        if (entry.kind != TreeEntry::Kind::file)
            entry.mode = 0;
        tree.entries.push_back(entry);
    }
    return check_tree_of_others(tree);
}

/// Of the web's, nothing is shown that may sign it.
inline void check_address(const std::string& url) {
    const std::string shown = shown_url(url), scheme = scheme_of(url);
    const bool is_web = scheme == "http" || scheme == "https";
    const std::size_t query = shown.find('?');
    if (is_web && (shown.find('#') != std::string::npos || shown.size() > url.size() + 3 ||
                   (query != std::string::npos && shown.substr(query) != "?…")))
        std::abort();
    name_in_url(url);
    lasting_query(url);
}

/// What lies in a site's cache, which is another user's: what makes sense reads the same once more.
inline std::size_t check_cached_texts(const std::string& bytes) {
    std::size_t taken = 0;
    try {
        const Tree tree = parse_manifest_text(bytes);
        const std::string text = manifest_text(tree);
        if (manifest_text(parse_manifest_text(text)) != text)
            std::abort();
        taken += tree.entries.size();
    } catch (const Error&) {
        // Another text.
    }
    try {
        taken += parse_marks_text(bytes).size();
    } catch (const Error&) {
        // Another text.
    }
    const auto source = parse_source_text(bytes);
    if (source && (source->name.find('/') != std::string::npos || source->keep_s < 0))
        std::abort();
    return taken + (source ? 1 : 0);
}

/// What servers and archives say: times, addresses, keys and entries. Aborts where one leads out,
/// or where what signs an address is shown. How much was taken.
inline std::size_t check_remote_bytes(const std::string& bytes) {
    std::size_t taken = server_time_ns(bytes) ? 1 : 0;
    const std::vector<std::string> lines = split(bytes, '\n');
    for (const std::string& line : lines) {
        check_address(line);
        check_address(resolved_url(line, lines.front()));
    }
    return taken + check_cached_texts(bytes) + check_objects(lines) + check_archive(lines);
}

}  // namespace autolaunch::launcher
