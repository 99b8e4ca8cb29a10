#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

// What an agent and its autolaunch-stager say to each other: lines of JSON.

struct StagerItem {
    std::string name, from, verify;
    std::string unpack = {};  ///< "tar", "zip"; empty: it stays as it is
    bool streams = false;     ///< ranks start before all of it is there
    bool for_all = false;     ///< every user of the machine has to be able to read the source
    bool operator==(const StagerItem&) const = default;
};

/// What this node does for the others.
enum class StagerRole {
    alone,  ///< nothing: it reads what it needs
    head,   ///< it looks at all sources, and reads what others hand on
    node,   ///< it is told of them, and reads what does not come
};

/// What the site has for all users on this node's disk (SharedCache).
struct SharedOrder {
    std::string folder;  ///< empty: it has none
    std::string owner;   ///< whose it is, by name or number
    bool fills = false;  ///< this job brings data there, in the place of its own user's cache
    bool operator==(const SharedOrder&) const = default;
};

/// The agent's first word.
struct StagerOrder {
    StagerRole role = StagerRole::alone;
    std::string scratch;
    std::int64_t most_bytes = 0, bytes_per_second = 0;
    std::chrono::milliseconds timeout{0};
    std::int64_t keep_s = 0;
    std::string streams;  ///< the folder that ranks look into while data comes; empty: none does
    std::vector<StagerItem> items;
    SharedOrder shared = {};
    bool operator==(const StagerOrder&) const = default;
};
std::string as_line(const StagerOrder& order);
/// Throws Error{corrupt}.
StagerOrder parse_order(std::string_view line);

/// A source as the head has seen it, and where its files are there.
struct SeenSource {
    int item = 0;
    std::string key;      ///< source_key()
    std::string address;  ///< address_of() the listing: the key, but of what was unpacked
    std::string listing;  ///< a file, which is handed on with the others; empty: nothing is
    std::string folder;   ///< that the files are below, there; empty: it still reads them
    std::string only;     ///< of a single file: its name there
    std::int64_t bytes = 0;
    bool operator==(const SeenSource&) const = default;
};
/// One that this node does not have: files have to come.
struct WantedFiles {
    int item = 0;
    std::string copies;              ///< a folder of this node for them
    std::vector<std::string> paths;  ///< of the head: with their sizes, what is handed on
    std::vector<std::int64_t> sizes;
    bool is_prepared = false;  ///< of the head: nothing has to be made before it is handed on
    /// Of the head, where files are still to come: their times of change, and modes.
    std::vector<std::int64_t> times = {};
    std::vector<unsigned> modes = {};
    bool operator==(const WantedFiles&) const = default;
};
/// What has come of one; the agent's answer.
struct HandedFiles {
    int item = 0;
    std::vector<std::pair<std::string, std::string>> copies;  ///< path there, path here
    bool operator==(const HandedFiles&) const = default;
};
/// What the agent says after its order.
struct AgentWord {
    std::vector<SeenSource> sources = {};  ///< to a node: all of them, or what has changed of them
    std::vector<HandedFiles> handed = {};
    std::vector<HandedFiles> came = {};  ///< to a node: of these more may follow
    std::vector<int> prepare = {};       ///< to the head: an offered item is wanted by others
    bool deserted = false;  ///< to a node: the head is gone, and nothing more comes of it
    bool operator==(const AgentWord&) const = default;
};
std::string as_line(const AgentWord& word);
/// Throws Error{corrupt}.
AgentWord parse_agent_word(std::string_view line);

/// What is there now.
struct StagedData {
    std::string name, entry, path;  ///< entry: in the cache, to be held
    std::int64_t bytes = 0, files = 0, read_bytes = 0;
    std::int64_t unchecked_files = 0;  ///< of a bucket: compared with no checksum, and no digest
    bool was_here = false;
    std::chrono::milliseconds took{0};
    std::int64_t shared_owner = -1;  ///< it is in the site's cache, which is this user's
    bool is_shared() const { return shared_owner >= 0; }
    bool operator==(const StagedData&) const = default;
};
/// What ranks can be started with, though it still comes.
struct StreamBegun {
    std::string name, path;
    std::int64_t bytes = 0, files = 0;
    bool operator==(const StreamBegun&) const = default;
};
/// How far a copy is.
struct StagingProgress {
    std::string name;
    std::int64_t bytes = 0, of = 0;
    bool operator==(const StagingProgress&) const = default;
};
/// Why there will be none.
struct StagingFailure {
    int exit_code = 0;
    std::string what, hint;
    bool operator==(const StagingFailure&) const = default;
};
/// A line of the stager's: one of these. `alive` without any: it works.
struct StagerWord {
    std::vector<StagedData> staged = {};
    std::vector<StreamBegun> streams = {};
    std::vector<StagingProgress> progress = {};
    std::vector<StagingFailure> failed = {};
    std::vector<std::string> notes = {};
    std::vector<SeenSource> sources = {};  ///< of the head: all of them
    std::vector<WantedFiles> wanted = {};
    /// Of the head: what it would hand on of an item that it has itself.
    std::vector<WantedFiles> offered = {};
    std::vector<int> prepared = {};  ///< what the head has of these can be handed on
    bool done = false;               ///< all that was asked for is there
    bool operator==(const StagerWord&) const = default;
};
std::string as_line(const StagerWord& word);
/// Throws Error{corrupt}.
StagerWord parse_word(std::string_view line);

/// What a version of a source is told by, besides the source's own facts: a copy that was verified
/// is another one than one that was not.
std::string key_words(const std::string& from, const std::string& verify);

}  // namespace autolaunch::launcher
