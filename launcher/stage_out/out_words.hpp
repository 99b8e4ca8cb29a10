#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// What a job's folder of results says of itself, and what is said of its copying: between an agent
// and its autolaunch-stageout, and between the agents of a job. Lines of JSON.

/// An entry of storage.stage_out.
struct OutEntry {
    std::string name, to;  ///< to: absolute, or "s3://bucket/prefix/"
    bool on_success = false, by_node = false, may_overwrite = false;
    bool operator==(const OutEntry&) const = default;
};

/// The file `order`: all that whoever finishes the copying has to know (docs/stage-out.md).
struct OutOrder {
    std::string run_id, node, run_dir;
    int nodes = 1;                      ///< of the job: with more, two may write the same name
    std::int64_t bytes_per_second = 0;  ///< 0: as fast as it goes
    std::chrono::milliseconds timeout{0};
    std::vector<OutEntry> entries;
    bool operator==(const OutOrder&) const = default;
};
std::string as_text(const OutOrder& order);
/// Throws Error{corrupt}.
OutOrder parse_out_order(std::string_view text);

/// The agent's word to its copier.
struct CopyOrder {
    std::string folder;              ///< the job's, whose file `order` has the rest
    std::vector<std::string> names;  ///< of the entries that are to be copied
    bool removes = true;             ///< what was copied; not of a job that is to come back
    bool operator==(const CopyOrder&) const = default;
};
std::string as_line(const CopyOrder& order);
/// Throws Error{corrupt}.
CopyOrder parse_copy_order(std::string_view line);

struct OutProgress {
    std::string name;
    std::int64_t bytes = 0, of = 0;
    bool operator==(const OutProgress&) const = default;
};
/// What became of an entry: all of it is there if nothing is left.
struct OutDone {
    std::string name;
    std::int64_t files = 0, bytes = 0;  ///< that are at the target now
    std::int64_t found_files = 0;       ///< of them: there before, with that content
    std::int64_t left_files = 0, left_bytes = 0;
    int exit_code = 0;  ///< 0: nothing is left
    std::string what = {}, hint = {};
    std::chrono::milliseconds took{0};
    bool operator==(const OutDone&) const = default;
};
/// Of a copier to its agent, and of that one to the head. `alive` without any: it works.
struct OutWord {
    std::vector<OutProgress> progress = {};
    std::vector<OutDone> done = {};
    std::vector<std::string> notes = {};
    std::string folder = {};  ///< the job's on that node; what a copier says has none
    bool over = false;        ///< nothing more comes
    bool operator==(const OutWord&) const = default;
};
std::string as_line(const OutWord& word);
/// Throws Error{corrupt}.
OutWord parse_out_word(std::string_view line);

/// How a job ended, as its folder keeps it.
enum class OutEnd {
    unknown,    ///< it runs, or its agent was killed
    succeeded,  ///< all ranks
    failed,
    requeued,  ///< it goes on, maybe elsewhere
};
/// "succeeded"; "unknown". Pure.
const char* name_of(OutEnd end);
OutEnd out_end_of(std::string_view name);

/// The head's word to a node: copy what that end asks for.
struct OutAsk {
    OutEnd end = OutEnd::unknown;
    std::chrono::milliseconds within{0};  ///< less than before: it is to hurry
    bool operator==(const OutAsk&) const = default;
};
std::string as_line(const OutAsk& ask);
/// Else it is an OutWord.
bool is_out_ask(std::string_view line);
/// Throws Error{corrupt}.
OutAsk parse_out_ask(std::string_view line);

}  // namespace autolaunch::launcher
