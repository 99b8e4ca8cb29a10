#pragma once
#include "spec/spec_error.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Where a value was written. Values merged from several files keep theirs.
struct Origin {
    std::shared_ptr<const std::string> file;
    int line = 0;
    int column = 0;
};

struct Entry;

/// One node of a spec: a YAML tree without aliases and merge keys, each node with its position.
/// Plain data.
struct Value {
    enum class Kind { null, scalar, sequence, mapping };

    Kind kind = Kind::null;
    bool plain = false;          ///< a scalar without quotes: its text decides its type
    bool interpolated = false;   ///< a ${VAR} was replaced in the text
    bool secret = false;         ///< not to be quoted: its key, or a variable in it, says so
    bool of_job = false;         ///< a variable in it is not set here, and is in a job of Slurm's
    std::string text;            ///< of a scalar, as written
    std::string tag;             ///< "!!int", "!custom"; empty when the file names none
    std::vector<Value> items;    ///< of a sequence
    std::vector<Entry> entries;  ///< of a mapping, in the file's order, keys unique
    Origin at;

    bool is_null() const { return kind == Kind::null; }
    bool is_scalar() const { return kind == Kind::scalar; }
    bool is_sequence() const { return kind == Kind::sequence; }
    bool is_mapping() const { return kind == Kind::mapping; }
    const Entry* find(std::string_view key) const;
    Entry* find(std::string_view key);
};

struct Entry {
    std::string key;
    Origin key_at;
    Value value;
};

/// Deeper trees are refused, so that everything that walks them may recurse.
inline constexpr int kMaxDepth = 64;

/// Levels of nesting: 1 for a scalar or an empty collection.
int depth_of(const Value& value);
/// Whether a mapping in `value`, at any depth, has the key `_target_`: it is the trainer's own
/// then.
bool contains_target(const Value& value);
/// `over` wins; mappings merge deeply, everything else is replaced.
void merge_into(Value& base, Value over);
/// Marks what stands under keys that name secrets, and what looks like one.
void mark_secrets(Value& value);
/// "a mapping", "a list", "nothing" or the text in quotes (shortened; *** for a secret), for
/// messages.
std::string describe(const Value& value);
/// At most 60 bytes of it, whole characters.
std::string shorten(std::string_view text);
SpecError error_at(const Origin& at, std::string key, std::string message);

}  // namespace autolaunch::launcher
