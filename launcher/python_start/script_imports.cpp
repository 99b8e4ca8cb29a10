#include "python_start/script_imports.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <regex>

namespace autolaunch::launcher {

namespace {

// As Python's grammar has them, of what is certain; names have letters of ASCII.
constexpr const char* kImport =
    R"(import +([A-Za-z_]\w*(\.\w+)*( +as +\w+)?)( *, *[A-Za-z_]\w*(\.\w+)*( +as +\w+)?)*)";
constexpr const char* kFrom =
    R"(from +[A-Za-z_]\w*(\.\w+)* +import +(\*|\w+( +as +\w+)?( *, *\w+( +as +\w+)?)*|)"
    R"(\( *\w+( +as +\w+)?( *, *\w+( +as +\w+)?)* *,? *\)))";

std::string_view without_comment(std::string_view line) {
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r'))
        line.remove_suffix(1);
    return line;
}

/// The lines of a script, one statement at a time.
class Statements {
public:
    explicit Statements(std::string_view script) : lines_(split(script, '\n')) {
        if (!lines_.empty() && lines_[0].starts_with("\xEF\xBB\xBF"))
            lines_[0].erase(0, 3);
    }

    /// Past blank lines and comments; false at the end.
    bool next() {
        while (at_ < lines_.size() && without_comment(lines_[at_]).empty())
            ++at_;
        return at_ < lines_.size();
    }
    int line() const { return static_cast<int>(at_) + 1; }
    std::string_view text() const { return lines_[at_]; }
    void skip() { ++at_; }

    bool is_string() const {
        const std::string_view text = without_prefix(lines_[at_]);
        return !text.empty() && (text[0] == '"' || text[0] == '\'');
    }
    /// False where it is more than a string on lines of its own, or nobody can be sure.
    bool skip_docstring() {
        const std::string_view text = without_prefix(lines_[at_]);
        for (const std::string_view quotes : {R"(""")", "'''"})
            if (text.starts_with(quotes))
                return skip_long_string(text.substr(3), quotes);
        return skip_short_string(text);
    }

    /// An import with what its parentheses hold, on one line; empty for anything else.
    std::string import() const {
        std::string statement(without_comment(lines_[at_]));
        std::size_t next = at_;
        if (statement.find('(') == statement.npos)
            return statement;
        while (statement.find(')') == statement.npos && ++next < lines_.size())
            statement += ' ' + std::string(trim(without_comment(lines_[next])));
        return statement;
    }
    void skip_import() {
        if (without_comment(lines_[at_]).find('(') != std::string_view::npos)
            while (at_ < lines_.size() &&
                   without_comment(lines_[at_]).find(')') == std::string_view::npos)
                ++at_;
        ++at_;
    }

private:
    static std::string_view without_prefix(std::string_view text) {
        if (!text.empty() && (text[0] == 'r' || text[0] == 'R'))
            text.remove_prefix(1);
        return text;
    }
    bool skip_long_string(std::string_view rest, std::string_view quotes) {
        for (;;) {
            const std::size_t end = rest.find(quotes);
            if (end != rest.npos) {
                ++at_;
                return without_comment(rest.substr(end + 3)).empty() &&
                       rest.substr(0, end).find('\\') == rest.npos;
            }
            if (rest.find('\\') != rest.npos || ++at_ == lines_.size())
                return false;
            rest = lines_[at_];
        }
    }
    bool skip_short_string(std::string_view text) {
        const std::size_t end = text.find(text[0], 1);
        ++at_;
        return end != text.npos && text.find('\\') == text.npos &&
               without_comment(text.substr(end + 1)).empty();
    }

    std::vector<std::string> lines_;
    std::size_t at_ = 0;
};

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 128; });
}

// "import a.b as c, d" imports two.
std::vector<std::string> packages_of(std::string_view statement) {
    std::vector<std::string> names;
    const bool one = statement.starts_with("from");
    std::string_view rest = statement.substr(one ? 4 : 6);
    if (one)
        rest = rest.substr(0, rest.find(" import"));
    for (const std::string& part : split(rest, ',')) {
        const std::string_view name = trim(part);
        names.emplace_back(name.substr(0, name.find_first_of(". ")));
    }
    return names;
}

}  // namespace

std::string imported_package(std::string_view statement) {
    static const std::regex kEither(std::string("(") + kImport + "|" + kFrom + ")");
    if (!std::regex_match(statement.begin(), statement.end(), kEither))
        return {};
    return packages_of(statement).front();
}

std::vector<PreloadedImport> leading_imports(
    std::string_view script, const std::function<bool(const std::string&)>& is_local) {
    std::vector<PreloadedImport> imports;
    Statements statements(script);
    for (bool is_first = true; statements.next(); is_first = false) {
        if (is_first && statements.is_string()) {
            if (!statements.skip_docstring())
                break;
            continue;
        }
        const std::string statement = statements.import();
        if (!is_ascii(statement) || imported_package(statement).empty())
            break;
        const auto packages = packages_of(statement);
        if (std::any_of(packages.begin(), packages.end(), is_local))
            break;
        if (packages.front() != "__future__")
            imports.push_back({statements.line(), statement});
        statements.skip_import();
    }
    return imports;
}

}  // namespace autolaunch::launcher
