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

Word take_apart(const std::string& argument, const OptionShapes& shapes) {
    Word word;
    if (const auto dash = argument.find('='); shapes.contains(argument.substr(0, dash))) {
        word.name = argument.substr(0, dash);  // mpirun's -np is one word too
        if (dash != std::string::npos)
            word.value = argument.substr(dash + 1);
        return word;
    }
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

/// The options whose long names begin so; aliases of one count once.
std::map<std::string, OptionShape> beginning_with(const std::string& part,
                                                  const OptionShapes& shapes) {
    std::map<std::string, OptionShape> found;
    if (part.size() < 3 || !part.starts_with("--"))
        return found;
    for (auto it = shapes.lower_bound(part); it != shapes.end() && it->first.starts_with(part);
         ++it)
        found.emplace(it->second.long_name, it->second);
    return found;
}

std::string names_of(const std::map<std::string, OptionShape>& options) {
    std::vector<std::string> names;
    for (const auto& [name, shape] : options)
        names.push_back(name);
    return join(names, ", ");
}

/// "-npernode" of "-npernode=2".
std::string foreign_hint(const std::string& argument, const ForeignOptions& foreign) {
    std::string name = argument.substr(0, argument.find('='));
    if (name.starts_with("--"))
        std::replace(name.begin() + 2, name.end(), '_', '-');
    for (const std::string& known : {name, name.substr(0, 2)})
        if (const auto found = foreign.find(known); found != foreign.end())
            if (known.size() > 2 || !name.starts_with("--"))
                return std::string(found->second);
    return {};
}

OptionShape shape_of(const Word& word, const std::string& argument, const OptionShapes& shapes,
                     const ForeignOptions& foreign) {
    const auto found = shapes.find(word.name);
    const std::string hint = foreign_hint(argument, foreign);
    if (found != shapes.end() && (hint.empty() || word.name != argument.substr(0, 2)))
        return found->second;
    if (!hint.empty())
        throw UsageError(argument + ": " + "not an option of autolaunch", hint);
    const auto shortened = beginning_with(word.name, shapes);
    if (shortened.size() == 1)
        return shortened.begin()->second;
    if (shortened.size() > 1)
        throw UsageError(argument + ": could be " + names_of(shortened),
                         "write as much of it as is no other's");
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes)
        names.push_back(name);
    const std::string near = nearest(word.name, names);
    throw UsageError(argument + ": unknown option",
                     near.empty() ? "see autolaunch --help" : "did you mean " + near + "?");
}

class Splitter {
public:
    Splitter(const std::vector<std::string>& arguments, const OptionShapes& shapes,
             const ForeignOptions& foreign)
        : arguments_(arguments), shapes_(shapes), foreign_(foreign) {}

    SplitArguments split() {
        while (next_ < arguments_.size()) {
            const std::string& argument = arguments_[next_];
            if (argument == "--") {
                ++next_;
                result_.separated = true;
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
        const Word word = take_apart(argument, shapes_);
        const OptionShape shape = shape_of(word, argument, shapes_, foreign_);
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
    const ForeignOptions& foreign_;
    SplitArguments result_;
    std::size_t next_ = 0;
    bool has_config_ = false;
};

}  // namespace

SplitArguments split_arguments(const std::vector<std::string>& arguments,
                               const OptionShapes& shapes, const ForeignOptions& foreign) {
    return Splitter(arguments, shapes, foreign).split();
}

}  // namespace autolaunch::launcher
