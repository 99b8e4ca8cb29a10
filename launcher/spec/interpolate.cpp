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

/// What an expansion comes to: text alone; or, where references stay, text that gives the same when
/// it is read again.
class Expansion {
public:
    explicit Expansion(bool references_stay) : references_stay_(references_stay) {}

    void literal(std::string_view text) { literal_.append(text); }
    /// False: behind a $ it would be read as no reference.
    bool reference(std::string_view text) {
        const bool readable = !literal_.ends_with('$');
        take_literal();
        text_.append(text);
        return readable;
    }
    std::size_t size() const { return text_.size() + literal_.size(); }
    std::string take() {
        take_literal();
        return std::move(text_);
    }

private:
    void take_literal() {
        std::size_t from = 0;
        for (std::size_t at = 0; references_stay_; from = at) {
            at = literal_.find("${", from);
            text_.append(literal_, from, std::min(at, literal_.size()) - from);
            if (at == std::string::npos)
                break;
            text_.append("$${");
            at += 2;
        }
        if (!references_stay_)
            text_.append(literal_);
        literal_.clear();
    }

    bool references_stay_;
    std::string text_, literal_;
};

/// One scalar's text. What is wrong with it ends up in `problem`.
class Expander {
public:
    Expander(Variables& variables, bool foreign_allowed)
        : variables_(variables), foreign_allowed_(foreign_allowed) {}

    std::string expand(std::string_view text) {
        Expansion whole(static_cast<bool>(variables_.keeps));
        expand_into(whole, text, 0);
        return whole.take();
    }
    const std::string& problem() const { return problem_; }
    bool used_a_secret() const { return used_a_secret_; }
    bool used_the_job() const { return used_the_job_; }

private:
    void expand_into(Expansion& expanded, std::string_view text, int nesting);
    void add_value(Expansion& expanded, std::string_view reference, int nesting);
    void keep(Expansion& expanded, const std::string& name, std::string_view fallback, int nesting);
    void fail(std::string message) {
        if (problem_.empty())
            problem_ = std::move(message);
    }

    Variables& variables_;
    bool foreign_allowed_;
    bool used_a_secret_ = false;
    bool used_the_job_ = false;
    std::string problem_;
};

void Expander::expand_into(Expansion& expanded, std::string_view text, int nesting) {
    if (nesting > kMaxNesting)
        return fail("defaults are nested too deeply");
    while (problem_.empty()) {
        const std::size_t at = text.find("${");
        if (at == std::string_view::npos)
            return expanded.literal(text);
        if (at > 0 && text[at - 1] == '$') {  // $${ is a plain ${
            expanded.literal(text.substr(0, at - 1));
            expanded.literal("${");
            text.remove_prefix(at + 2);
            continue;
        }
        const std::size_t end = closing_brace(text, at + 2);
        if (end == std::string_view::npos)
            return fail("${ without a closing }; write $${ for a plain ${");
        expanded.literal(text.substr(0, at));
        add_value(expanded, text.substr(at + 2, end - at - 2), nesting);
        if (expanded.size() > kMaxText)
            return fail("becomes larger than 4 MiB");
        text.remove_prefix(end + 1);
    }
}

/// `fallback` is what follows the name: nothing, or :- and a default.
void Expander::keep(Expansion& expanded, const std::string& name, std::string_view fallback,
                    int nesting) {
    variables_.kept.insert(name);
    std::string whole = "${" + name;
    if (!fallback.empty()) {
        Expansion inner(true);
        expand_into(inner, fallback.substr(2), nesting + 1);
        whole += ":-" + inner.take();
    }
    whole += '}';
    if (closing_brace(whole, 2) != whole.size() - 1)
        return fail("the default of " + name + ", which the job itself replaces, holds a } alone");
    if (!expanded.reference(whole))
        fail("a $ in front of " + whole + ", which the job itself replaces, cannot be written");
}

void Expander::add_value(Expansion& expanded, std::string_view reference, int nesting) {
    const std::size_t separator = reference.find(":-");
    const std::string name(reference.substr(0, separator));
    const std::string whole = "${" + std::string(reference) + "}";
    if (!is_variable_name(name)) {
        if (!foreign_allowed_)
            return fail(whole + " names no variable; write ${VAR} or ${VAR:-default}, or $" +
                        whole + " for the plain text");
        if (!variables_.keeps)
            expanded.literal(whole);
        else if (!expanded.reference(whole))
            fail("a $ in front of " + whole + " cannot be written");
        return;
    }
    const auto found = variables_.environment.find(name);
    const bool is_set = found != variables_.environment.end();
    const bool has_default = separator != std::string_view::npos;
    if (variables_.keeps && variables_.keeps(name, is_set ? &found->second : nullptr))
        return keep(expanded, name, has_default ? reference.substr(separator) : "", nesting);
    if (has_default && (!is_set || found->second.empty()))
        return expand_into(expanded, reference.substr(separator + 2), nesting + 1);
    if (!is_set && variables_.for_later && is_variable_of_slurm(name)) {
        used_the_job_ = true;
        return expanded.literal("1");
    }
    if (!is_set)
        return fail("the variable " + name + " is not set; set it, or write ${" + name +
                    ":-default}; $${" + name + "} stays a plain ${" + name + "}");
    if (first_unprintable(found->second) != std::string_view::npos)
        return fail("the value of the variable " + name + " is not UTF-8 text");
    used_a_secret_ = used_a_secret_ || names_secret(name);
    expanded.literal(found->second);
}

bool is_one_reference(std::string_view text) {
    return text.starts_with("${") && closing_brace(text, 2) == text.size() - 1;
}

}  // namespace

bool is_variable_of_slurm(std::string_view name) { return name.starts_with("SLURM"); }

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
    Expander expander(variables, foreign_allowed);
    std::string expanded = expander.expand(value.text);
    if (!expander.problem().empty()) {
        errors.push_back(error_at(value.at, key, expander.problem()));
        return;
    }
    value.of_job = value.of_job || expander.used_the_job();
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
