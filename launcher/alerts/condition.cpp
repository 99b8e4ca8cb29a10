#include "alerts/condition.hpp"

#include "base/text.hpp"
#include "spec/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>
#include <system_error>
#include <utility>

namespace autolaunch::launcher::alerts {

namespace {

using Operator = Comparison::Operator;

struct OperatorWord {
    std::string_view text;
    Operator op;
};
// Longer ones first: ">=" begins with ">".
constexpr std::array kOperators = {
    OperatorWord{">=", Operator::at_least}, OperatorWord{"<=", Operator::at_most},
    OperatorWord{"==", Operator::equal},    OperatorWord{"!=", Operator::unequal},
    OperatorWord{">", Operator::above},     OperatorWord{"<", Operator::below},
};

struct Failed {
    ConditionError error;
};

bool parse_number(const std::string& text, double& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    Condition parse() {
        Condition condition{.text = std::string(trim(text_)), .any = {{}}};
        do {
            condition.any.back().push_back(comparison());
            check_scopes(condition.any.back());
            if (take_word("or"))
                condition.any.emplace_back();
            else if (!take_word("and"))
                break;
        } while (true);
        if (take_word("for"))
            condition.hold = hold();
        blanks();
        if (at_ < text_.size())
            fail("expected and, or, for or the end; found \"" + rest() + '"');
        return condition;
    }

private:
    [[noreturn]] void fail(std::string message) const { throw Failed{{at_, std::move(message)}}; }
    [[noreturn]] void fail_at(std::size_t place, std::string message) const {
        throw Failed{{place, std::move(message)}};
    }
    std::string rest() const { return std::string(text_.substr(at_, 20)); }
    void blanks() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'))
            ++at_;
    }
    std::string_view word() {
        blanks();
        const std::size_t begin = at_;
        while (at_ < text_.size() && is_word(text_[at_]))
            ++at_;
        return text_.substr(begin, at_ - begin);
    }
    bool take_word(std::string_view wanted) {
        const std::size_t before = at_;
        if (word() == wanted)
            return true;
        at_ = before;
        return false;
    }

    Comparison comparison() {
        Comparison one;
        one.metric = &metric();
        one.op = op();
        limit(one);
        const bool is_order = one.op != Operator::equal && one.op != Operator::unequal;
        if (!one.metric->words.empty() && is_order)
            fail(std::string(one.metric->name) + " is a word: compare it with == or !=");
        return one;
    }

    const AlertMetric& metric() {
        blanks();
        const std::size_t begin = at_;
        const std::string name(word());
        if (name.empty())
            fail(at_ == text_.size() ? "expected a metric, such as gpu_temperature"
                                     : "expected a metric; found \"" + rest() + '"');
        if (const AlertMetric* known = find_alert_metric(name))
            return *known;
        std::vector<std::string> names;
        for (const AlertMetric& one : alert_metrics())
            names.emplace_back(one.name);
        const std::string near = nearest(name, names);
        fail_at(begin, "there is no metric \"" + name + "\"" +
                           (near.empty() ? "; there are " + join(names, ", ")
                                         : "; did you mean " + near + "?"));
    }

    Operator op() {
        blanks();
        for (const OperatorWord& one : kOperators)
            if (text_.substr(at_).starts_with(one.text)) {
                at_ += one.text.size();
                return one.op;
            }
        fail("expected one of > >= < <= == !=" +
             (at_ == text_.size() ? "" : "; found \"" + rest() + '"'));
    }

    void limit(Comparison& one) {
        blanks();
        const char next = at_ < text_.size() ? text_[at_] : '\0';
        if (next == '\'' || next == '"')
            return quoted(one, next);
        if (take_word("median"))
            return with_median(one, 1);
        const std::size_t begin = at_;
        const double value = number();
        const std::size_t behind = at_;
        blanks();
        if (at_ < text_.size() && text_[at_] == '*') {
            ++at_;
            if (!take_word("median"))
                fail("expected median after the *");
            return with_median(one, value);
        }
        if (!one.metric->words.empty())
            fail_at(begin, words_of(one));
        at_ = behind;
        one.number = value * unit_factor(*one.metric);
    }

    void with_median(Comparison& one, double factor) {
        if (!one.metric->words.empty())
            fail(words_of(one));
        one.number = factor;
        one.of_median = true;
    }

    void quoted(Comparison& one, char quote) {
        const std::size_t begin = at_, end = text_.find(quote, at_ + 1);
        if (end == text_.npos)
            fail("the quote is not closed");
        one.word = text_.substr(begin + 1, end - begin - 1);
        at_ = end + 1;
        if (one.metric->words.empty())
            fail_at(begin, std::string(one.metric->name) + " is a number, and no word");
        const auto& words = one.metric->words;
        if (std::find(words.begin(), words.end(), one.word) == words.end())
            fail_at(begin, words_of(one));
    }
    static std::string words_of(const Comparison& one) {
        std::vector<std::string> words;
        for (const std::string_view word : one.metric->words)
            words.push_back('\'' + std::string(word) + '\'');
        return std::string(one.metric->name) + " is one of " + join(words, ", ");
    }

    double number() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 ||
                                      text_[at_] == '.' || text_[at_] == '-'))
            ++at_;
        const std::string digits(text_.substr(begin, at_ - begin));
        double value = 0;
        if (digits.empty() || !parse_number(digits, value)) {
            at_ = begin;
            fail(at_ == text_.size()
                     ? "expected a number, a word in quotes, or median"
                     : "expected a number, a word in quotes, or median; found \"" + rest() + '"');
        }
        return value;
    }

    // Right behind the number: "90%", "10s", "2GB"; nothing: the metric's own.
    double unit_factor(const AlertMetric& metric) {
        const std::size_t begin = at_;
        while (at_ < text_.size() && text_[at_] != ' ' && text_[at_] != '\t')
            ++at_;
        const std::string unit(text_.substr(begin, at_ - begin));
        const auto refuse = [&] {
            fail_at(begin, "\"" + unit + "\" is no unit of " + std::string(metric.name) +
                               (metric.unit.empty() ? ", which has none"
                                                    : ", which is in " + std::string(metric.unit)));
        };
        if (unit.empty())
            return 1;
        if (unit == metric.unit || (metric.unit == "°C" && unit == "C"))
            return 1;
        if (metric.unit == "s")
            if (const auto time = duration_from('1' + unit))
                return std::chrono::duration<double>(*time).count();
        if (metric.unit == "bytes")
            if (const auto bytes = bytes_from('1' + unit))
                return static_cast<double>(*bytes);
        refuse();
        return 1;
    }
    std::chrono::milliseconds hold() {
        blanks();
        const std::size_t begin = at_;
        while (at_ < text_.size() && text_[at_] != ' ')
            ++at_;
        const auto time = duration_from(text_.substr(begin, at_ - begin));
        if (!time)
            fail_at(begin, "expected a time after for, such as 10m");
        return *time;
    }

    void check_scopes(const std::vector<Comparison>& all) const {
        const AlertMetric* first = nullptr;
        for (const Comparison& one : all) {
            if (one.metric->scope == MetricScope::job)
                continue;
            if (first != nullptr && first->scope != one.metric->scope)
                fail(std::string(first->name) + " is of a " + std::string(name_of(first->scope)) +
                     ", and " + std::string(one.metric->name) + " of a " +
                     std::string(name_of(one.metric->scope)) +
                     ": both cannot hold of the same; make two alerts of it");
            first = one.metric;
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

bool compare(Operator op, double seen, double limit) {
    switch (op) {
        case Operator::above:
            return seen > limit;
        case Operator::at_least:
            return seen >= limit;
        case Operator::below:
            return seen < limit;
        case Operator::at_most:
            return seen <= limit;
        case Operator::equal:
            return seen == limit;
        case Operator::unequal:
            return seen != limit;
    }
    return false;
}

bool holds(const Comparison& one, const Observation& seen, const MetricHistory& history) {
    if (!one.metric->words.empty())
        return (seen.word == one.word) == (one.op == Operator::equal);
    if (!one.of_median)
        return compare(one.op, seen.number, one.number);
    const auto median = history.median(*one.metric);
    return median && compare(one.op, seen.number, one.number * *median);
}

std::string value_text(const Observation& seen) {
    const AlertMetric& metric = *seen.metric;
    std::string text = std::string(metric.name) + " is ";
    if (!metric.words.empty())
        return text + seen.word;
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.6g", seen.number);
    text += digits.data();
    return metric.unit.empty() ? text : text + ' ' + std::string(metric.unit);
}

using Matches = std::vector<Match>;

Matches matches_of_one(const Comparison& one, std::span<const Observation> seen,
                       const MetricHistory& history) {
    Matches found;
    for (const Observation& each : seen)
        if (each.metric == one.metric && holds(one, each, history))
            found.push_back({each.subject, value_text(each)});
    return found;
}

const Match* find_subject(const Matches& among, const std::string& subject) {
    const auto found = std::find_if(among.begin(), among.end(),
                                    [&](const Match& one) { return one.subject == subject; });
    return found == among.end() ? nullptr : &*found;
}

// Of one subject, or of the job, which stands for all: its subject is empty.
Matches both(const Matches& left, const Matches& right) {
    Matches result;
    for (const Match& one : left) {
        if (const Match* same = find_subject(right, one.subject)) {
            result.push_back({one.subject, one.value + ", " + same->value});
            continue;
        }
        if (const Match* of_job = find_subject(right, ""))
            result.push_back({one.subject, one.value + ", " + of_job->value});
        else if (one.subject.empty())
            for (const Match& each : right)
                result.push_back({each.subject, one.value + ", " + each.value});
    }
    return result;
}

}  // namespace

std::variant<Condition, ConditionError> parse_condition(std::string_view text) {
    try {
        return Parser(text).parse();
    } catch (const Failed& failed) {
        return failed.error;
    }
}

void MetricHistory::add(std::span<const Observation> seen) {
    constexpr std::size_t kMost = 1000;
    for (const Observation& one : seen) {
        if (!one.metric->words.empty() || !std::isfinite(one.number))
            continue;
        auto& values = values_[one.metric->name];
        values.push_back(one.number);
        if (values.size() > kMost)
            values.pop_front();
    }
}

std::optional<double> MetricHistory::median(const AlertMetric& metric) const {
    constexpr std::size_t kFewest = 8;
    const auto found = values_.find(metric.name);
    if (found == values_.end() || found->second.size() < kFewest)
        return std::nullopt;
    std::vector<double> values(found->second.begin(), found->second.end());
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::vector<Match> matches_of(const Condition& condition, std::span<const Observation> seen,
                              const MetricHistory& history) {
    Matches result;
    for (const auto& all : condition.any) {
        Matches found = matches_of_one(all.front(), seen, history);
        for (std::size_t i = 1; i < all.size(); ++i)
            found = both(found, matches_of_one(all[i], seen, history));
        for (Match& one : found)
            if (find_subject(result, one.subject) == nullptr)
                result.push_back(std::move(one));
    }
    return result;
}

std::vector<std::string> unseen_metrics(const Condition& condition,
                                        std::span<const Observation> seen) {
    std::set<std::string> unseen;
    for (const auto& all : condition.any)
        for (const Comparison& one : all)
            if (std::none_of(seen.begin(), seen.end(),
                             [&](const Observation& each) { return each.metric == one.metric; }))
                unseen.emplace(one.metric->name);
    return {unseen.begin(), unseen.end()};
}

}  // namespace autolaunch::launcher::alerts
