#pragma once
#include "lint/subject.hpp"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A block of a Markdown file that people copy: a script, lines for a shell, a part of slurm.conf,
/// or metrics.
struct DocumentBlock {
    FileKind kind = FileKind::script;
    std::string text;    ///< without the block's own indentation, and without what a shell answers
    SourceLines source;  ///< as it stands in the document
    bool whole = false;  ///< begins with #!: nothing of the script is elsewhere
    bool expression = false;         ///< PromQL
    std::set<std::string> silenced;  ///< rules, by a comment in front of the block
};

/// Fenced blocks whose language or content says what they are, and indented ones that begin with
/// #!. Others are passed over. Linear. Pure.
std::vector<DocumentBlock> document_blocks(std::string_view text);

/// Here-documents of a script that write (a part of) slurm.conf, gres.conf or Prometheus' rules.
std::vector<DocumentBlock> here_document_blocks(const Subject& script);

/// Whether a rule judges what a block says, and nothing that the block may have left out.
bool judges_excerpts(std::string_view rule);

/// The rules that "autolaunch-lint: ignore=A,B" in a comment names.
std::set<std::string> silenced_by(std::string_view line);

}  // namespace autolaunch::launcher
