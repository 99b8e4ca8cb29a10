#include "lint/document_blocks.hpp"

#include "base/text.hpp"
#include "lint/lint.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace autolaunch::launcher {

namespace {

// Rules that hold for a line wherever it stands. Others conclude from what a file does not have.
constexpr std::array<std::string_view, 45> kForExcerpts = {"per-task-variable",
                                                           "too-many-processes",
                                                           "more-ranks-than-gpus",
                                                           "torch-distributed-launch",
                                                           "mpirun-in-srun",
                                                           "launcher-in-launcher",
                                                           "launcher-per-rank",
                                                           "no-python-script",
                                                           "nnodes-mismatch",
                                                           "standalone-nodes",
                                                           "rdzv-host-list",
                                                           "directive-variable",
                                                           "unknown-option",
                                                           "short-option-equals",
                                                           "option-twice",
                                                           "memory-twice",
                                                           "gpus-mismatch",
                                                           "gpu-counts-differ",
                                                           "tasks-and-gpus",
                                                           "gpu-bind",
                                                           "array-beyond-list",
                                                           "nccl-ib-disable",
                                                           "nccl-ib-hca-prefix",
                                                           "nccl-paths-off",
                                                           "nccl-ignore-mismatch",
                                                           "nccl-renamed",
                                                           "nccl-misspelt",
                                                           "nccl-opposites",
                                                           "gres-file-twice",
                                                           "gres-cores-overlap",
                                                           "gres-count",
                                                           "gres-both-files",
                                                           "gres-links",
                                                           "gres-unknown-key",
                                                           "slurm-node-twice",
                                                           "slurm-cpu-count",
                                                           "slurm-select-linear",
                                                           "slurm-proctrack",
                                                           "slurm-dbd-key",
                                                           "scontrol-create-partition",
                                                           "dashboard-open",
                                                           "metric-unknown",
                                                           "elastic-kill-on-bad-exit",
                                                           "elastic-wait",
                                                           "rdzv-node-rank"};

struct Fence {
    char mark = '`';
    std::size_t length = 0, depth = 0;
    std::string language;
};

std::optional<Fence> opening(std::string_view line) {
    Fence fence;
    fence.depth = std::min(line.find_first_not_of(" \t>"), line.size());
    line.remove_prefix(fence.depth);
    if (line.empty() || (line[0] != '`' && line[0] != '~'))
        return std::nullopt;
    fence.mark = line[0];
    fence.length = std::min(line.find_first_not_of(fence.mark), line.size());
    if (fence.length < 3 || line.find('`', fence.length) != std::string_view::npos)
        return std::nullopt;
    line = trim(line.substr(fence.length));
    while (!line.empty() && (line[0] == '{' || line[0] == '.'))
        line.remove_prefix(1);
    for (const char c : line.substr(0, line.find_first_of(" \t{},:")))
        fence.language += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return fence;
}

bool closes(std::string_view line, const Fence& fence) {
    const std::size_t at = line.find_first_not_of(" \t>");
    if (at == std::string_view::npos)
        return false;
    line = trim(line.substr(at));
    return line.size() >= fence.length &&
           line.find_first_not_of(fence.mark) == std::string_view::npos;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_for_shell(const std::string& language) {
    return is_one_of(language, {"bash", "sh", "shell", "zsh", "console", "shell-session",
                                "shellsession", "sh-session", "terminal", "slurm", "sbatch"});
}

/// Lines behind a prompt, and those that continue them; the others, which a shell answers, are left
/// empty.
void keep_commands(std::vector<std::string>& lines) {
    bool continued = false;
    for (auto& line : lines) {
        const bool prompt = line.starts_with("$ ");
        if (prompt)
            line.replace(0, 1, " ");
        else if (!continued)
            line.clear();
        continued = trim(line).ends_with('\\');
    }
}

bool has_prompt(const std::vector<std::string>& lines) {
    return std::any_of(lines.begin(), lines.end(),
                       [](const std::string& line) { return line.starts_with("$ "); });
}

/// A block that says of itself what it is in, or whose first command is one of these.
bool looks_like_commands(const std::vector<std::string>& lines) {
    for (const auto& line : lines) {
        const std::string_view text = trim(line);
        if (text.empty() || text.starts_with('#'))
            continue;
        const std::string_view first = text.substr(0, text.find_first_of(" \t"));
        return is_one_of(first, {"srun", "sbatch", "salloc", "torchrun", "autolaunch", "scontrol",
                                 "sudo", "export", "$"});
    }
    return false;
}

std::optional<FileKind> kind_of_block(const std::string& language, const std::string& text,
                                      const std::vector<std::string>& lines) {
    const bool directive =
        text.starts_with("#SBATCH") || text.find("\n#SBATCH") != std::string::npos;
    if (text.starts_with("#!") || directive)
        return directive || is_run_by_shell(text) ? std::optional(FileKind::script) : std::nullopt;
    if (language == "promql")
        return FileKind::metrics;
    if (is_one_of(language, {"yaml", "yml", "json", "csv", "", "text"}) &&
        is_metrics_file("block." + language, text))
        return FileKind::metrics;
    if (is_one_of(language,
                  {"conf", "ini", "cfg", "properties", "text", "", "slurm", "bash", "sh"}))
        if (const auto kind = kind_of_conf(text); kind && !looks_like_commands(lines))
            return kind == FileKind::other ? std::nullopt : kind;
    if (is_for_shell(language) || (language.empty() && looks_like_commands(lines)))
        return FileKind::script;
    return std::nullopt;
}

class BlockReader {
public:
    explicit BlockReader(std::string_view text) : lines_(split(text, '\n')) {}

    std::vector<DocumentBlock> read() {
        for (at_ = 0; at_ < lines_.size();) {
            if (const auto fence = opening(lines_[at_])) {
                read_fenced(*fence);
            } else if (lines_[at_].starts_with("    #!")) {
                read_indented();
            } else {
                ++at_;
            }
        }
        return std::move(blocks_);
    }

private:
    void read_fenced(const Fence& fence) {
        const std::size_t begin = ++at_;
        while (at_ < lines_.size() && !closes(lines_[at_], fence))
            ++at_;
        take(begin, at_, fence.depth, fence.language);
        ++at_;
    }

    void read_indented() {
        const std::size_t begin = at_;
        std::size_t end = at_;
        for (; at_ < lines_.size(); ++at_) {
            if (lines_[at_].starts_with("    "))
                end = at_ + 1;
            else if (!trim(lines_[at_]).empty())
                break;
        }
        take(begin, end, 4, "");
    }

    void take(std::size_t begin, std::size_t end, std::size_t depth, const std::string& language) {
        if (begin >= end)
            return;
        DocumentBlock block;
        block.source.first_line = static_cast<int>(begin) + 1;
        std::vector<std::string> inner;
        for (std::size_t i = begin; i < end; ++i) {
            block.source.lines.push_back(lines_[i]);
            const std::size_t skip = std::min(lines_[i].find_first_not_of(" \t>"), depth);
            inner.push_back(lines_[i].substr(std::min(skip, lines_[i].size())));
            if (inner.back().ends_with('\r'))
                inner.back().pop_back();
        }
        const auto kind = kind_of_block(language, join(inner, "\n"), inner);
        if (!kind)
            return;
        block.kind = *kind;
        if (block.kind == FileKind::script && has_prompt(inner))
            keep_commands(inner);
        block.text = join(inner, "\n");
        block.whole = block.text.starts_with("#!");
        block.expression = language == "promql";
        for (std::size_t i = begin - std::min<std::size_t>(begin, 3); i < begin; ++i)
            block.silenced.merge(silenced_by(lines_[i]));
        blocks_.push_back(std::move(block));
    }

    std::vector<std::string> lines_;
    std::size_t at_ = 0;
    std::vector<DocumentBlock> blocks_;
};

}  // namespace

std::vector<DocumentBlock> document_blocks(std::string_view text) {
    return BlockReader(text).read();
}

namespace {

/// By the command's line, `cat >/etc/slurm/slurm.conf <<END`, or what is written.
std::optional<FileKind> kind_of_here_document(const std::string& command, const std::string& text) {
    const auto names = [&](std::string_view file) {
        return command.find(file) != std::string::npos;
    };
    if (names("slurmdbd.conf"))
        return std::nullopt;
    if (names("slurm.conf"))
        return FileKind::slurm_conf;
    if (names("gres.conf"))
        return FileKind::gres_conf;
    return is_metrics_file(".yaml", text) ? std::optional(FileKind::metrics) : std::nullopt;
}

}  // namespace

std::vector<DocumentBlock> here_document_blocks(const Subject& script) {
    std::vector<DocumentBlock> blocks;
    const auto& lines = script.script.lines;
    for (const LineRange& range : script.script.shell.here_documents) {
        const int first = range.first - script.source.first_line;
        const int last = range.last - script.source.first_line;  // of the delimiter
        if (first < 1 || last <= first || static_cast<std::size_t>(last) > lines.size() ||
            script.source.lines.size() < lines.size())
            continue;
        DocumentBlock block;
        const std::vector<std::string> inner(lines.begin() + first, lines.begin() + last);
        block.text = join(inner, "\n");
        block.source.first_line = range.first;
        block.source.lines.assign(script.source.lines.begin() + first,
                                  script.source.lines.begin() + last);
        const auto kind =
            kind_of_here_document(lines[static_cast<std::size_t>(first) - 1], block.text);
        if (!kind)
            continue;
        block.kind = *kind;
        blocks.push_back(std::move(block));
    }
    return blocks;
}

bool judges_excerpts(std::string_view rule) {
    return std::find(kForExcerpts.begin(), kForExcerpts.end(), rule) != kForExcerpts.end();
}

std::set<std::string> silenced_by(std::string_view line) {
    constexpr std::string_view kMark = "autolaunch-lint:";
    std::set<std::string> rules;
    const std::size_t at = line.find(kMark);
    if (at == std::string_view::npos)
        return rules;
    const std::string_view before = line.substr(0, at);
    if (before.find('#') == std::string_view::npos &&
        before.find("<!--") == std::string_view::npos &&
        before.find("{/*") == std::string_view::npos)
        return rules;
    line = trim(line.substr(at + kMark.size()));
    if (!line.starts_with("ignore="))
        return rules;
    line.remove_prefix(7);
    for (const auto& name : split(line.substr(0, line.find_first_of(" \t\r")), ','))
        rules.insert(name);
    return rules;
}

}  // namespace autolaunch::launcher
