#pragma once
#include "causes/cause.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A program's words that tell why it failed, whoever wrote them.
struct KnownText {
    std::string_view text;
    Cause cause;
    std::string_view says;  ///< a sentence for the screen
    bool follows = false;   ///< its peer was gone: EndRecord::follows
    Certainty certainty = Certainty::likely;
};

/// The first of the table that a line has; null: none. The table is from the narrow to the wide:
/// "Cuda failure 'out of memory'" is known before "unhandled cuda error". Pure.
const KnownText* find_known_text(std::string_view line);
/// Of several lines, the newest that has one.
const KnownText* find_known_text(const std::vector<std::string>& lines);

/// Of where an error was raised: in a library's reader of one kind of files.
const KnownText* find_known_place(std::string_view where);

/// All of them, for docs/causes.md.
const std::vector<KnownText>& known_texts();

}  // namespace autolaunch::launcher
