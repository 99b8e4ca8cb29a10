#include "spec/interpolate.hpp"

#include "spec/yaml_reader.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr int kMaxNesting = 16;  // of defaults within defaults
constexpr std::size_t kMaxText = kMaxSpecBytes;

bool is_variable_name(std::string_view name) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0)
        return false;
    return std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return c < 128 && (std::isalnum(c) != 0 || c == '_');
    });
}

/// Offset of the } that closes the ${ before `start`; npos when there is none.
std::size_t closing_brace(std::string_view text, std::size_t start) {
    int open = 1;
    for (std::size_t i = start; i < text.size(); ++i) {
        if (text[i] == '}' && --open == 0)
            return i;
        if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '{') {
            ++open;
            ++i;
        }
    }
    return std::string_view::npos;
}

/// One scalar's text. What is wrong with it ends up in `problem`.
class Expander {
public:
    Expander(const std::map<std::string, std::string>& environment, bool foreign_allowed)
        : environment_(environment), foreign_allowed_(foreign_allowed) {}

    std::string expand(std::string_view text, int nesting = 0);
    const std::string& problem() const { return problem_; }
    bool used_a_secret() const { return used_a_secret_; }

private:
    std::string value_of(std::string_view reference, int nesting);
    std::string fail(std::string message) {
        if (problem_.empty())
            problem_ = std::move(message);
        return {};
    }

    const std::map<std::string, std::string>& environment_;
    bool foreign_allowed_;
    bool used_a_secret_ = false;
    std::string problem_;
};

std::string Expander::expand(std::string_view text, int nesting) {
    if (nesting > kMaxNesting)
        return fail("defaults are nested too deeply");
    std::string expanded;
    while (problem_.empty()) {
        const std::size_t at = text.find("${");
        if (at == std::string_view::npos)
            return expanded.append(text);
        if (at > 0 && text[at - 1] == '$') {  // $${ is a plain ${
            expanded.append(text.substr(0, at - 1)).append("${");
            text.remove_prefix(at + 2);
            continue;
        }
        const std::size_t end = closing_brace(text, at + 2);
        if (end == std::string_view::npos)
            return fail("${ without a closing }; write $${ for a plain ${");
        expanded.append(text.substr(0, at))
            .append(value_of(text.substr(at + 2, end - at - 2), nesting));
        if (expanded.size() > kMaxText)
            return fail("becomes larger than 4 MiB");
        text.remove_prefix(end + 1);
    }
    return expanded;
}

std::string Expander::value_of(std::string_view reference, int nesting) {
    const std::size_t separator = reference.find(":-");
    const std::string name(reference.substr(0, separator));
    const std::string whole = "${" + std::string(reference) + "}";
    if (!is_variable_name(name)) {
        if (foreign_allowed_)
            return whole;
        return fail(whole + " names no variable; write ${VAR} or ${VAR:-default}, or $" + whole +
                    " for the plain text");
    }
    const auto found = environment_.find(name);
    if (separator != std::string_view::npos &&
        (found == environment_.end() || found->second.empty()))
        return expand(reference.substr(separator + 2), nesting + 1);
    if (found == environment_.end())
        return fail("the variable " + name + " is not set; set it, or write ${" + name +
                    ":-default}; $${" + name + "} stays a plain ${" + name + "}");
    if (first_unprintable(found->second) != std::string_view::npos)
        return fail("the value of the variable " + name + " is not UTF-8 text");
    used_a_secret_ = used_a_secret_ || names_secret(name);
    return found->second;
}

bool is_one_reference(std::string_view text) {
    return text.starts_with("${") && closing_brace(text, 2) == text.size() - 1;
}

}  // namespace

void interpolate(Value& value, Variables& variables, bool foreign_allowed, const std::string& key,
                 std::vector<SpecError>& errors) {
    for (std::size_t i = 0; i < value.items.size(); ++i)
        interpolate(value.items[i], variables, foreign_allowed, key + '[' + std::to_string(i) + ']',
                    errors);
    for (auto& entry : value.entries) {
        interpolate(entry.value, variables, foreign_allowed,
                    key.empty() ? entry.key : key + '.' + entry.key, errors);
    }
    if (!value.is_scalar() || value.text.find("${") == std::string::npos ||
        variables.replaced_bytes > kMaxText)
        return;
    Expander expander(variables.environment, foreign_allowed);
    std::string expanded = expander.expand(value.text);
    if (!expander.problem().empty()) {
        errors.push_back(error_at(value.at, key, expander.problem()));
        return;
    }
    if (expanded == value.text)
        return;
    variables.replaced_bytes += expanded.size();
    if (variables.replaced_bytes > kMaxText) {
        errors.push_back(error_at(
            value.at, key, "with its variables replaced the spec becomes larger than 4 MiB"));
        return;
    }
    value.interpolated = true;
    value.secret = value.secret || (expander.used_a_secret() && variables.secrets == Secrets::mask);
    // Only a scalar that is one reference is typed anew; text around a reference makes it text.
    value.plain = value.plain && is_one_reference(value.text);
    value.text = std::move(expanded);
}

}  // namespace autolaunch::launcher
