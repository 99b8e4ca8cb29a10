#include "submission/code_state.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/json_nesting.hpp"
#include "base/owned_folder.hpp"
#include "base/path_within.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "submission/slurm_queue.hpp"
#include "submission/stored_job.hpp"
#include "sweep/elements.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

constexpr auto kStartTime = 5s;
constexpr std::size_t kMostBytesHashed = std::size_t{4} << 20, kMostChanged = 2000;

std::vector<std::string> git(const std::string& folder, std::vector<std::string> words) {
    std::vector<std::string> argv = {"git", "--no-optional-locks", "-C", folder,
                                     "-c",  "core.quotePath=false"};
    argv.insert(argv.end(), std::make_move_iterator(words.begin()),
                std::make_move_iterator(words.end()));
    return argv;
}

bool is_in_one(const fs::path& path, const std::vector<fs::path>& folders) {
    return std::any_of(folders.begin(), folders.end(),
                       [&](const fs::path& folder) { return lies_within(path, folder); });
}

/// What is not tracked may be data, logs, checkpoints.
bool is_source(const fs::path& path) {
    static const std::set<std::string> kSources = {".py", ".sh",  ".yaml", ".yml", ".toml", ".cpp",
                                                   ".cc", ".hpp", ".h",    ".c",   ".cu",   ".cuh",
                                                   ".jl", ".rs",  ".lua",  ".cfg", ".ini"};
    return kSources.contains(path.extension());
}

std::vector<std::string> lines_in(const std::string& text) {
    auto lines = split(text, '\n');
    std::erase(lines, "");
    return lines;
}

std::string digest_of(const fs::path& root, const std::vector<std::string>& files) {
    if (files.empty())
        return {};
    RunningHash hash;
    for (const std::string& file : files) {
        std::string bytes = "gone";
        try {
            bytes = read_at_most(root / file, kMostBytesHashed);
        } catch (const Error&) {  // it was deleted, or is none that can be read
        }
        const std::string head = file + '\0' + std::to_string(bytes.size()) + '\0';
        hash.update(head.data(), head.size());
        hash.update(bytes.data(), bytes.size());
    }
    return hex128(hash.take());
}

std::string why_not(const CommandAnswer& answer) {
    if (answer.late)
        return "git gave no answer in time";
    if (!answer.code)
        return "git cannot be started";
    return "git says: " + std::string(trim(answer.errors.substr(0, answer.errors.find('\n'))));
}

std::optional<CodeState> state_from(const nlohmann::json& json) {
    CodeState state;
    for (auto [name, member] : {std::pair<const char*, std::string*>{"root", &state.root},
                                {"commit", &state.commit},
                                {"digest", &state.digest}}) {
        const auto found = json.find(name);
        if (found == json.end() || !found->is_string())
            return std::nullopt;
        *member = found->get<std::string>();
    }
    return state;
}

std::string difference(const CodeState& then, const CodeState& now) {
    constexpr std::size_t kShown = 3, kShort = 9;
    std::string text;
    if (then.commit != now.commit)
        text = "commit " + then.commit.substr(0, kShort) + " then, " +
               now.commit.substr(0, kShort) + " now";
    if (then.digest == now.digest)
        return text;
    std::vector<std::string> files(
        now.changed.begin(),
        now.changed.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, now.changed.size())));
    const std::string more = now.changed.size() > kShown ? ", …" : "";
    return text + (text.empty() ? "" : "; ") +
           (files.empty() ? "what was not committed then is gone"
                          : "not committed now: " + join(files, ", ") + more);
}

}  // namespace

std::optional<CodeState> read_code_state(const fs::path& folder,
                                         const std::vector<fs::path>& without,
                                         const Deadline& deadline, std::string& why) {
    why.clear();
    const CommandAnswer top =
        ask_command(git(folder.string(), {"rev-parse", "--show-toplevel"}), deadline);
    if (!top.good()) {
        const bool none = top.errors.find("not a git repository") != std::string::npos;
        why = none ? std::string() : why_not(top);
        return std::nullopt;
    }
    CodeState state;
    state.root = trim(top.out);
    const CommandAnswer head =
        ask_command(git(state.root, {"rev-parse", "--verify", "-q", "HEAD"}), deadline);
    if (!head.code)
        why = why_not(head);
    state.commit = trim(head.out);
    // Without a commit yet all files are untracked, or staged.
    const CommandAnswer differ =
        state.commit.empty()
            ? ask_command(git(state.root, {"ls-files", "--cached"}), deadline)
            : ask_command(git(state.root, {"diff", "--name-only", "--no-ext-diff", "HEAD"}),
                          deadline);
    const CommandAnswer fresh =
        ask_command(git(state.root, {"ls-files", "--others", "--exclude-standard"}), deadline);
    for (const CommandAnswer* answer : {&differ, &fresh})
        if (!answer->good())
            why = why_not(*answer);
    if (!why.empty())
        return std::nullopt;
    state.changed = lines_in(differ.out);
    for (const std::string& file : lines_in(fresh.out))
        if (is_source(file) && !is_in_one(fs::path(state.root) / file, without))
            state.changed.push_back(file);
    if (state.changed.size() > kMostChanged) {
        why = "more than 2000 files are not committed";
        return std::nullopt;
    }
    state.digest = digest_of(state.root, state.changed);
    return state;
}

bool write_diff(const CodeState& state, const fs::path& file, const Deadline& deadline) {
    if (state.commit.empty() || state.changed.empty())
        return true;
    // git writes into a file that is there already.
    OwnedFolder::open(file.parent_path()).replace(file.filename(), "", 0600);
    return ask_command(git(state.root, {"diff", "--binary", "--no-ext-diff", "--no-textconv",
                                        "--output=" + file.string(), "HEAD"}),
                       deadline)
        .good();
}

nlohmann::ordered_json to_json(const CodeState& state) {
    return {{"root", state.root},
            {"commit", state.commit},
            {"digest", state.digest},
            {"changed", state.changed}};
}

bool was_submitted(const fs::path& spec_file) {
    try {
        const std::string name = spec_file.filename();
        return (name == kStoredSpec || is_stored_element(name)) &&
               is_file(spec_file.parent_path() / kStoredRecord);
    } catch (const Error&) {  // then somebody else says what is wrong with the folder
        return false;
    }
}

std::string changed_code(const fs::path& spec_file) {
    constexpr std::size_t kMostRecord = std::size_t{4} << 20;
    if (!was_submitted(spec_file))
        return {};
    std::string text;
    try {
        text = OwnedFolder::open(spec_file.parent_path())
                   .read(kStoredRecord, kMostRecord)
                   .value_or("");
    } catch (const Error& error) {
        return std::string(
                   "whether the code has changed since the job was submitted is not known: ") +
               error.what();
    }
    const auto json =
        nests_at_most(text, 8) ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
    if (!json.is_object() || !json.contains("code") || json["code"].is_null() ||
        json.contains("snapshot"))
        return {};
    const auto then = state_from(json["code"]);
    if (!then)
        return {};
    std::vector<fs::path> without;
    if (json.contains("runs") && json["runs"].is_string())
        without.emplace_back(json["runs"].get<std::string>());
    std::string why;
    const auto now = read_code_state(then->root, without, Deadline::after(kStartTime), why);
    if (!now)
        return "whether the code in " + then->root +
               " has changed since the job was submitted is not known: " +
               (why.empty() ? "it is no git repository here" : why);
    if (now->same_as(*then))
        return {};
    return "the code in " + then->root + " is not what it was when the job was submitted (" +
           difference(*then, *now) +
           "): this start runs it as it is now; autolaunch submit --snapshot keeps a copy";
}

}  // namespace autolaunch::launcher
