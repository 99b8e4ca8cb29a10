#pragma once
#include "checkpoint/commit/info_text.hpp"
#include "checkpoint/commit/lineage.hpp"
#include "checkpoint/memory/contents.hpp"
#include "require.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch {

namespace checkpoint_note {

/// Where a checkpoint comes from, as its manifest says it: a child of it has a lineage, too.
inline bool check_lineage(std::string_view bytes) {
    const auto parent = parent_of_lineage(bytes);
    signer_of_lineage(bytes);
    if (!parent)
        return false;
    fuzz::require(is_lineage(bytes) && is_lineage(published_lineage(*parent)));
    LineageParent of_child = *parent;
    of_child.lineage = bytes;
    const std::string child = lineage_text("reshard", of_child);
    const auto read = parent_of_lineage(child);
    fuzz::require(is_lineage(child) && read && read->step == parent->step);
    return true;
}

/// What a copy in memory holds, which a rank has written.
inline bool check_contents(std::string_view bytes) {
    try {
        const auto contents = memory::Contents::decode(bytes);
        const std::string text = contents.encode();
        fuzz::require(memory::Contents::decode(text).encode() == text);
        return true;
    } catch (const Error& error) {
        fuzz::require(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported);
        return false;
    }
}

/// What ranks say to each other of what they have found.
inline bool check_search(std::string_view bytes) {
    try {
        const std::string text = text_of(search_of(std::string(bytes)));
        fuzz::require(text_of(search_of(text)) == text);
        return true;
    } catch (const nlohmann::json::exception&) {  // as who asks expects
        return false;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace checkpoint_note

/// What stands beside a checkpoint's tensors, whoever wrote it: it is written to read the same, or
/// is none. Aborts where that is not so. How much of it is something.
inline std::size_t check_note_bytes(std::string_view bytes) {
    using namespace checkpoint_note;
    return (check_lineage(bytes) ? 1 : 0) + (check_contents(bytes) ? 1 : 0) +
           (check_search(bytes) ? 1 : 0);
}

}  // namespace autolaunch
