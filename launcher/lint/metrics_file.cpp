#include "lint/metrics_file.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace autolaunch::launcher {

namespace {

bool is_name_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}

bool begins_at_margin(std::string_view text, std::string_view key) {
    return text.starts_with(key) || text.find('\n' + std::string(key)) != std::string_view::npos;
}

bool is_csv_line(std::string_view line) {
    line = trim(line);
    const std::size_t comma = line.find(',');
    return (line.starts_with("DCGM_") || line.starts_with("dcgm_")) &&
           comma != std::string_view::npos &&
           line.substr(0, comma).find_first_of(" {(") == std::string_view::npos;
}

/// The names outside of braces, and of the lists behind by, without, on and their like.
class ExpressionReader {
public:
    ExpressionReader(int line, std::vector<MetricUse>& into) : line_(line), into_(into) {}

    void read(std::string_view text) {
        for (std::size_t at = 0; at < text.size();) {
            const char c = text[at];
            if (is_name_char(c)) {
                const std::size_t begin = at;
                while (at < text.size() && is_name_char(text[at]))
                    ++at;
                take(std::string(text.substr(begin, at - begin)));
                continue;
            }
            if (c == '#' && braces_ == 0) {  // a comment
                at = std::min(text.find('\n', at), text.size());
                continue;
            }
            line_ += c == '\n' ? 1 : 0;
            if (c == '{' || c == '}')
                braces_ = std::max(0, braces_ + (c == '{' ? 1 : -1));
            if (c == '(')
                labels_ = list_ahead_;
            if (c == ')')
                labels_ = false;
            if (std::isspace(static_cast<unsigned char>(c)) == 0)
                list_ahead_ = false;
            ++at;
        }
    }

private:
    void take(std::string name) {
        constexpr std::array<std::string_view, 6> kLists = {
            "by", "without", "on", "ignoring", "group_left", "group_right"};
        list_ahead_ = std::find(kLists.begin(), kLists.end(), name) != kLists.end();
        if (braces_ == 0 && !labels_ && !list_ahead_)
            into_.push_back({std::move(name), line_});
    }

    int line_;
    std::vector<MetricUse>& into_;
    int braces_ = 0;
    bool list_ahead_ = false, labels_ = false;
};

struct YamlKey {
    std::size_t depth = 0;  ///< of the key, behind any "- "
    std::string_view value;
};

/// `expr: …` and the like.
std::optional<YamlKey> expression_key(std::string_view line) {
    std::size_t at = line.find_first_not_of(" \t");
    while (at != std::string_view::npos && line.substr(at).starts_with("- "))
        at = line.find_first_not_of(" \t", at + 1);
    if (at == std::string_view::npos)
        return std::nullopt;
    for (const std::string_view key : {"expr:", "query:", "series:"})
        if (line.substr(at).starts_with(key))
            return YamlKey{at, trim(line.substr(at + key.size()))};
    return std::nullopt;
}

/// Strings behind "expr":, "query": and "definition": of JSON in this line.
void read_json_line(std::string_view line, int number, std::vector<MetricUse>& into) {
    for (const std::string_view key : {"\"expr\"", "\"query\"", "\"definition\""})
        for (std::size_t at = line.find(key); at != std::string_view::npos;
             at = line.find(key, at)) {
            at = line.find_first_not_of(" \t", at + key.size());
            if (at == std::string_view::npos)
                break;
            if (line[at] == ':')
                at = std::min(line.find_first_not_of(" \t", at + 1), line.size());
            if (at == line.size() || line[at] != '"')
                continue;
            std::string text;
            for (++at; at < line.size() && line[at] != '"'; ++at) {
                if (line[at] == '\\' && at + 1 < line.size())
                    text += line[++at] == 'n' || line[at] == 't' ? ' ' : line[at];
                else
                    text += line[at];
            }
            ExpressionReader(number, into).read(text);
        }
}

/// The block or the continued lines below a key: all that is indented deeper.
std::size_t read_yaml_value(const std::vector<std::string>& lines, std::size_t at,
                            const YamlKey& key, int first_line, std::vector<MetricUse>& into) {
    std::string_view value = key.value;
    if (value.starts_with('|') || value.starts_with('>'))
        value = {};
    std::string text(value);
    std::size_t next = at + 1;
    for (; next < lines.size(); ++next) {
        const std::size_t depth = lines[next].find_first_not_of(" \t\r");
        if (depth != std::string::npos && depth <= key.depth)
            break;
        text += '\n' + lines[next];
    }
    ExpressionReader(static_cast<int>(at) + first_line, into).read(text);
    return next;
}

}  // namespace

bool is_metrics_file(const std::string& file, std::string_view text) {
    const auto has = [text](std::string_view part) {
        return text.find(part) != std::string_view::npos;
    };
    if (has("\"panels\"") && (has("\"schemaVersion\"") || has("\"targets\"")))
        return true;
    const bool may_list =  // also in a ConfigMap
        file.ends_with(".csv") || file.ends_with(".yaml") || file.ends_with(".yml");
    bool rule = false, expression = false, counters = false;
    for (const auto& raw : split(text, '\n')) {
        std::string_view line = trim(raw);
        if (line.starts_with("- "))
            line = trim(line.substr(2));
        rule = rule || line.starts_with("alert:") || line.starts_with("record:");
        expression = expression || line.starts_with("expr:");
        counters = counters || (may_list && is_csv_line(line));
    }
    return (rule && expression) || counters || has("scrape_configs:") ||
           (begins_at_margin(text, "groups:") && expression) ||
           (begins_at_margin(text, "rule_files:") && !begins_at_margin(text, "jobs:"));
}

std::vector<MetricUse> metrics_of_expression(std::string_view expression, int first_line) {
    std::vector<MetricUse> uses;
    ExpressionReader(first_line, uses).read(expression);
    return uses;
}

std::vector<MetricUse> metric_uses(std::string_view text, int first_line) {
    std::vector<MetricUse> uses;
    const auto lines = split(text, '\n');
    for (std::size_t i = 0; i < lines.size();) {
        const int number = static_cast<int>(i) + first_line;
        if (const auto key = expression_key(lines[i])) {
            i = read_yaml_value(lines, i, *key, first_line, uses);
            continue;
        }
        if (is_csv_line(lines[i])) {
            const std::string_view line = trim(lines[i]);
            uses.push_back({std::string(line.substr(0, line.find(','))), number});
        } else {
            read_json_line(lines[i], number, uses);
        }
        ++i;
    }
    return uses;
}

}  // namespace autolaunch::launcher
