#include "stage_out/name_clash.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "stage_cache/tree.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLists = "stage-out";

}  // namespace

std::string as_node_folder(const std::string& node) {
    std::string name = node.empty() || node[0] == '.' ? '_' + node : node;
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
}

void claim_names(const OutOrder& order, const std::string& name, const std::vector<OutFile>& files,
                 const std::function<void(const std::string&)>& note) {
    try {
        std::string text;
        for (const OutFile& file : files)
            if (file.kind != OutFile::Kind::folder)
                text += escaped_word(file.path) + '\n';
        OwnedFolder::open(order.run_dir)
            .folder(kLists)
            .replace(name + '@' + as_node_folder(order.node), text);
    } catch (const Error& error) {
        note(std::string("which node wrote what cannot be kept: ") + error.what());
    }
}

std::vector<std::string> who_claims(const OutOrder& order, const std::string& name,
                                    const std::string& path) {
    std::error_code error;
    std::vector<std::string> nodes;
    const std::string wanted = escaped_word(path), own = name + '@' + as_node_folder(order.node);
    for (const fs::path& list : list_folder(fs::path(order.run_dir) / kLists, error)) {
        const std::string file = list.filename().string();
        if (file == own || !file.starts_with(name + '@'))
            continue;
        try {
            const std::string text = read_file(list);
            const auto lines = split(text, '\n');
            if (std::find(lines.begin(), lines.end(), wanted) != lines.end())
                nodes.push_back(file.substr(name.size() + 1));
        } catch (const Error&) {
            continue;
        }
    }
    std::sort(nodes.begin(), nodes.end());
    return nodes;
}

}  // namespace autolaunch::launcher
