#include "cli/argument_splitter.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "spec/spec.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace autolaunch::launcher {

namespace {

/// One option word, taken apart.
struct Word {
    std::string name;
    std::optional<std::string> value;  ///< given in the same word
};

Word take_apart(const std::string& argument) {
    Word word;
    if (!argument.starts_with("--")) {  // -r3 is -r with 3, and -r=3 too
        word.name = argument.substr(0, 2);
        if (argument.size() > 2)
            word.value = argument.substr(argument[2] == '=' ? 3 : 2);
        return word;
    }
    const std::size_t equals = argument.find('=');
    word.name = argument.substr(0, equals);
    std::replace(word.name.begin(), word.name.end(), '_', '-');
    if (equals != std::string::npos)
        word.value = argument.substr(equals + 1);
    return word;
}

const OptionShape& shape_of(const Word& word, const std::string& argument,
                            const OptionShapes& shapes) {
    const auto found = shapes.find(word.name);
    if (found != shapes.end())
        return found->second;
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes)
        names.push_back(name);
    const std::string near = nearest(word.name, names);
    throw UsageError(argument + ": unknown option",
                     near.empty() ? "see autolaunch --help" : "did you mean " + near + "?");
}

class Splitter {
public:
    Splitter(const std::vector<std::string>& arguments, const OptionShapes& shapes)
        : arguments_(arguments), shapes_(shapes) {}

    SplitArguments split() {
        while (next_ < arguments_.size()) {
            const std::string& argument = arguments_[next_];
            if (argument == "--") {
                ++next_;
                break;
            }
            if (argument.size() > 1 && argument[0] == '-')
                take_option(argument);
            else if (has_config_ && is_override(argument))
                result_.overrides.push_back(arguments_[next_++]);
            else
                break;
        }
        result_.program.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
                               arguments_.end());
        return std::move(result_);
    }

private:
    void take_option(const std::string& argument) {
        const Word word = take_apart(argument);
        const OptionShape& shape = shape_of(word, argument, shapes_);
        ++next_;
        std::optional<std::string> value = word.value;
        if (shape.takes_value && !value) {
            if (next_ == arguments_.size())
                throw UsageError(argument + " needs a value", "see autolaunch --help");
            value = arguments_[next_++];
        }
        if (shape.takes_value && value->empty())
            throw UsageError(argument + " needs a value that is not empty");
        result_.options.push_back(value ? shape.long_name + '=' + *value : shape.long_name);
        has_config_ = has_config_ || shape.long_name == "--config";
    }

    const std::vector<std::string>& arguments_;
    const OptionShapes& shapes_;
    SplitArguments result_;
    std::size_t next_ = 0;
    bool has_config_ = false;
};

}  // namespace

SplitArguments split_arguments(const std::vector<std::string>& arguments,
                               const OptionShapes& shapes) {
    return Splitter(arguments, shapes).split();
}

}  // namespace autolaunch::launcher
