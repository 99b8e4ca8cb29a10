#include "lint/arithmetic.hpp"

#include "base/text.hpp"

#include <cctype>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

class Evaluator {
public:
    Evaluator(std::string_view text, const VariableLookup& variable)
        : text_(text), variable_(variable) {}

    std::optional<long long> all() {
        const auto value = sum();
        skip_blanks();
        return at_ == text_.size() ? value : std::nullopt;
    }

private:
    static constexpr int kMaxNesting = 40;
    using Value = std::optional<long long>;

    void skip_blanks() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
            ++at_;
    }
    char next() {
        skip_blanks();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(std::string_view token) {
        skip_blanks();
        if (!text_.substr(at_).starts_with(token))
            return false;
        at_ += token.size();
        return true;
    }

    Value sum() {
        Value left = product();
        while (left && (next() == '+' || next() == '-')) {
            const bool minus = text_[at_++] == '-';
            const Value right = product();
            long long result = 0;
            const bool overflow =
                !right || (minus ? __builtin_sub_overflow(*left, *right, &result)
                                 : __builtin_add_overflow(*left, *right, &result));
            left = overflow ? Value() : Value(result);
        }
        return left;
    }

    Value product() {
        Value left = atom();
        while (left && (next() == '*' || next() == '/' || next() == '%')) {
            const char operation = text_[at_++];
            const Value right = atom();
            if (!right)
                return std::nullopt;
            long long result = 0;
            if (operation == '*') {
                if (__builtin_mul_overflow(*left, *right, &result))
                    return std::nullopt;
            } else {
                if (*right == 0 || *right == -1)
                    return std::nullopt;
                result = operation == '/' ? *left / *right : *left % *right;
            }
            left = result;
        }
        return left;
    }

    Value atom() {
        if (++nesting_ > kMaxNesting)
            return std::nullopt;
        const Value value = bare_atom();
        --nesting_;
        return value;
    }

    Value bare_atom() {
        if (accept("$((")) {
            const Value value = sum();
            return accept("))") ? value : std::nullopt;
        }
        if (accept("(")) {
            const Value value = sum();
            return accept(")") ? value : std::nullopt;
        }
        if (accept("-")) {
            const Value value = atom();
            return value && *value != -*value ? Value(-*value) : value;
        }
        if (accept("${")) {
            std::string name = accept("#") ? "#" : "";
            name += identifier();
            if (name.starts_with('#') && !accept("[@]") && !accept("[*]"))
                return std::nullopt;
            return accept("}") && !name.empty() ? variable_(name) : std::nullopt;
        }
        accept("$");
        if (std::isdigit(static_cast<unsigned char>(next())) != 0)
            return number();
        const std::string name = identifier();
        return name.empty() ? std::nullopt : variable_(name);
    }

    Value number() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)
            ++at_;
        const std::string_view digits = text_.substr(begin, at_ - begin);
        long long value = 0;
        const bool octal = digits.size() > 1 && digits[0] == '0';
        return !octal && parse_integer(digits, value) ? Value(value) : std::nullopt;
    }

    std::string identifier() {
        skip_blanks();
        const std::size_t begin = at_;
        while (at_ < text_.size() &&
               (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
            ++at_;
        return std::string(text_.substr(begin, at_ - begin));
    }

    std::string_view text_;
    const VariableLookup& variable_;
    std::size_t at_ = 0;
    int nesting_ = 0;
};

}  // namespace

std::optional<long long> evaluate_arithmetic(std::string_view text,
                                             const VariableLookup& variable) {
    return Evaluator(text, variable).all();
}

}  // namespace autolaunch::launcher
