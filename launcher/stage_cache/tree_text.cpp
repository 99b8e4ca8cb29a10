#include "base/hash.hpp"
#include "base/text.hpp"
#include "stage_cache/tree.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kFirstWords = "autolaunch tree 1 ";
constexpr std::string_view kFirstOfListing = "autolaunch source 1 ";
constexpr std::string_view kFirstMark = "autolaunch marks 1\n";
constexpr int kOctal = 8;

[[noreturn]] void refuse_text(const std::string& why) {
    throw Error(ErrorCode::corrupt, "it is no manifest of a staged tree: " + why);
}

template <class Number>
Number number_in(std::string_view text, int base = 10) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc{} || end != text.data() + text.size())
        refuse_text("'" + std::string(text) + "' is no number");
    return value;
}

std::int64_t bytes_in(std::string_view text) {
    const auto bytes = number_in<std::int64_t>(text);
    if (bytes < 0)
        refuse_text("fewer bytes than none");
    return bytes;
}

/// The next word of a line, and what is behind it.
std::string_view next_word(std::string_view& line) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return word;
}

std::string_view next_line(std::string_view& text) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos)
        refuse_text("its last line is not whole");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
}

void check_within(const TreeEntry& entry) {
    if (!is_path_within(entry.path))
        refuse_text("a path that leads out of it");
    if (entry.kind == TreeEntry::Kind::link && !leads_within(entry.path, entry.target))
        refuse_text("a link that leads out of it");
}

TreeEntry entry_in(std::string_view line) {
    TreeEntry entry;
    const std::string_view kind = next_word(line);
    if (kind == "d") {
        entry.kind = TreeEntry::Kind::folder;
    } else if (kind == "f") {
        entry.mode = number_in<unsigned>(next_word(line), kOctal);
        entry.bytes = bytes_in(next_word(line));
        const auto digest = parse_hex128(next_word(line));
        if (!digest || entry.mode != kept_mode(entry.mode))
            refuse_text("a file without mode or digest");
        entry.digest = *digest;
    } else if (kind == "l") {
        entry.kind = TreeEntry::Kind::link;
        entry.target = unescaped_word(next_word(line));
    } else {
        refuse_text("an entry of no kind");
    }
    entry.path = unescaped_word(line);
    check_within(entry);
    return entry;
}

TreeEntry listed_entry_in(std::string_view line) {
    TreeEntry entry;
    const std::string_view kind = next_word(line);
    if (kind != "d" && kind != "f" && kind != "l")
        refuse_text("an entry of no kind");
    entry.kind = static_cast<TreeEntry::Kind>(kind.front());
    entry.mode = number_in<unsigned>(next_word(line), kOctal);
    entry.bytes = bytes_in(next_word(line));
    entry.mtime_ns = number_in<std::int64_t>(next_word(line));
    entry.ctime_ns = number_in<std::int64_t>(next_word(line));
    std::string word = unescaped_word(next_word(line));
    (entry.kind == TreeEntry::Kind::link ? entry.target : entry.version) = std::move(word);
    entry.path = unescaped_word(line);
    if (entry.kind == TreeEntry::Kind::file ? entry.mode != kept_mode(entry.mode)
                                            : entry.mode != 0 || entry.bytes != 0)
        refuse_text("an entry with another's mode or size");
    check_within(entry);
    return entry;
}

/// Each is where its folder is, and comes once.
void check_order(const Tree& tree) {
    std::vector<std::string> folders{""};
    for (std::size_t at = 0; at < tree.entries.size(); ++at) {
        const TreeEntry& entry = tree.entries[at];
        if (at > 0 && !(tree.entries[at - 1].path < entry.path))
            refuse_text("its entries are not in order");
        const std::size_t slash = entry.path.rfind('/');
        const std::string parent = slash == std::string::npos ? "" : entry.path.substr(0, slash);
        if (!std::binary_search(folders.begin(), folders.end(), parent))
            refuse_text("an entry without its folder");
        if (entry.kind == TreeEntry::Kind::folder)
            folders.push_back(entry.path);  // ascending, as the entries are
    }
}

void check_one_file(const Tree& tree) {
    if (tree.entries.size() != 1 || tree.entries[0].kind != TreeEntry::Kind::file ||
        tree.entries[0].path.find('/') != std::string::npos)
        refuse_text("it is of one file, and has others");
}

}  // namespace

std::string unescaped_word(std::string_view word) {
    auto text = plain_word(word);
    if (!text)
        refuse_text("a '%' without two digits");
    return std::move(*text);
}

std::int64_t Tree::bytes() const {
    std::int64_t sum = 0;
    for (const TreeEntry& entry : entries)
        sum += entry.bytes;
    return sum;
}

std::int64_t Tree::file_count() const {
    return std::count_if(entries.begin(), entries.end(), [](const TreeEntry& entry) {
        return entry.kind == TreeEntry::Kind::file;
    });
}

// By the kernel's rules, for each ".." behind a name might be behind another link: so there is
// none.
bool leads_within(std::string_view link_path, std::string_view target) {
    if (target.empty() || target.front() == '/' || target.find('\0') != std::string_view::npos)
        return false;
    auto depth = std::count(link_path.begin(), link_path.end(), '/');
    bool goes_down = false;
    for (const std::string& name : split(target, '/')) {
        if (name.empty() || name == ".")
            continue;
        if (name != "..")
            goes_down = true;
        else if (goes_down || --depth < 0)
            return false;
    }
    return true;
}

std::string manifest_text(const Tree& tree) {
    std::string text = fmt::format("{}{} {} {}\n", kFirstWords, tree.is_file ? "file" : "folder",
                                   tree.file_count(), tree.bytes());
    for (const TreeEntry& entry : tree.entries) {
        text += static_cast<char>(entry.kind);
        if (entry.kind == TreeEntry::Kind::file)
            fmt::format_to(std::back_inserter(text), " {:o} {} {}", kept_mode(entry.mode),
                           entry.bytes, hex128(entry.digest));
        if (entry.kind == TreeEntry::Kind::link)
            text += ' ' + escaped_word(entry.target);
        text += ' ' + escaped_word(entry.path) + '\n';
    }
    return text;
}

ManifestHead parse_manifest_head(std::string_view text) {
    std::string_view line = next_line(text);
    if (!line.starts_with(kFirstWords))
        refuse_text("its first line is another one");
    line.remove_prefix(kFirstWords.size());
    const std::string_view kind = next_word(line);
    if (kind != "file" && kind != "folder")
        refuse_text("it is of no kind");
    ManifestHead head;
    head.is_file = kind == "file";
    head.files = bytes_in(next_word(line));
    head.bytes = bytes_in(line);
    return head;
}

Tree parse_manifest_text(std::string_view text) {
    const ManifestHead head = parse_manifest_head(text);
    next_line(text);
    Tree tree;
    tree.is_file = head.is_file;
    while (!text.empty())
        tree.entries.push_back(entry_in(next_line(text)));
    check_order(tree);
    if (tree.file_count() != head.files || tree.bytes() != head.bytes)
        refuse_text("its first line counts others");
    if (tree.is_file)
        check_one_file(tree);
    return tree;
}

std::string address_of(std::string_view manifest) {
    return hex128(hash128(manifest.data(), manifest.size()));
}

std::string listing_text(std::string_view from, const Tree& tree) {
    std::string text = fmt::format("{}{}\n{}\n", kFirstOfListing, tree.is_file ? "file" : "folder",
                                   escaped_word(from));
    for (const TreeEntry& entry : tree.entries)
        fmt::format_to(
            std::back_inserter(text), "{} {:o} {} {} {} {} {}\n", static_cast<char>(entry.kind),
            entry.mode, entry.bytes, entry.mtime_ns, entry.ctime_ns,
            escaped_word(entry.kind == TreeEntry::Kind::link ? entry.target : entry.version),
            escaped_word(entry.path));
    return text;
}

Tree parse_listing_text(std::string_view text) {
    Tree tree;
    if (!text.starts_with(kFirstOfListing))
        refuse_text("it is no listing");
    text.remove_prefix(kFirstOfListing.size());
    const std::string_view kind = next_line(text);
    if (kind != "file" && kind != "folder")
        refuse_text("it is of no kind");
    tree.is_file = kind == "file";
    next_line(text);
    while (!text.empty())
        tree.entries.push_back(listed_entry_in(next_line(text)));
    check_order(tree);
    if (tree.is_file)
        check_one_file(tree);
    return tree;
}

std::string source_key(std::string_view from, const Tree& tree) {
    return address_of(listing_text(from, tree));
}

std::string marks_text(const std::vector<Mark>& marks) {
    std::string text{kFirstMark};
    for (const Mark& mark : marks)
        fmt::format_to(std::back_inserter(text), "{} {}\n", mark.inode, mark.mtime_ns);
    return text;
}

std::vector<Mark> parse_marks_text(std::string_view text) {
    if (!text.starts_with(kFirstMark))
        refuse_text("its marks begin otherwise");
    text.remove_prefix(kFirstMark.size());
    std::vector<Mark> marks;
    while (!text.empty()) {
        std::string_view line = next_line(text);
        Mark mark;
        mark.inode = number_in<std::uint64_t>(next_word(line));
        mark.mtime_ns = number_in<std::int64_t>(line);
        marks.push_back(mark);
    }
    return marks;
}

}  // namespace autolaunch::launcher
