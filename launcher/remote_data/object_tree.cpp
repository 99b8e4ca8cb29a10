#include "remote_data/object_tree.hpp"

#include "base/text.hpp"
#include "remote_data/http_date.hpp"
#include "remote_data/remote_errors.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestName = 255, kLongestPath = 4000;
constexpr unsigned kMode = 0444;

void check_key(const std::string& path, const std::string& shown) {
    const auto names = split(path, '/');
    const bool fits = path.size() <= kLongestPath &&
                      std::all_of(names.begin(), names.end(), [](const std::string& name) {
                          return name.size() <= kLongestName;
                      });
    if (!is_path_within(path) || !fits)
        remote_unusable("the object " + shown + path + " has a name that no file can have",
                        "stage a folder without such objects, or copy it to another name");
}

}  // namespace

TreeEntry remote_file(std::string path, std::int64_t bytes, std::string version,
                      const std::string& modified) {
    TreeEntry entry{.path = std::move(path)};
    entry.mode = kMode;
    entry.bytes = bytes;
    entry.version = std::move(version);
    entry.mtime_ns = server_time_ns(modified).value_or(0);
    return entry;
}

Tree tree_of_objects(const std::vector<s3::Object>& objects, const std::string& shown) {
    std::map<std::string, TreeEntry> files;
    std::set<std::string> folders;
    for (const s3::Object& object : objects) {
        std::string path = object.key;
        const bool is_folder = path.ends_with('/');
        if (is_folder)
            path.pop_back();
        if (path.empty())
            continue;  // the folder itself, as tools leave it
        check_key(path, shown);
        if (is_folder && object.bytes > 0)
            remote_unusable("the object " + shown + object.key + " has the name of a folder, and " +
                                std::to_string(object.bytes) + " bytes",
                            "copy it to another name");
        if (object.bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            remote_unusable("the object " + shown + object.key + " has an odd size", {});
        for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
            folders.insert(path.substr(0, at));
        if (is_folder)
            folders.insert(path);
        else
            files.emplace(path, remote_file(path, static_cast<std::int64_t>(object.bytes),
                                            object.etag, object.modified));
    }
    Tree tree;
    for (const std::string& folder : folders) {
        if (files.contains(folder))
            remote_unusable("the object " + shown + folder + " is a file, and others are below it",
                            "no folder can have both: copy one of them to another name");
        TreeEntry entry{.path = folder};
        entry.kind = TreeEntry::Kind::folder;
        tree.entries.push_back(std::move(entry));
    }
    for (auto& [path, file] : files)
        tree.entries.push_back(std::move(file));
    std::sort(tree.entries.begin(), tree.entries.end(),
              [](const TreeEntry& a, const TreeEntry& b) { return a.path < b.path; });
    return tree;
}

}  // namespace autolaunch::launcher
