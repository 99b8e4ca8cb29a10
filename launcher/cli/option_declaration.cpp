#include "cli/option_declaration.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace autolaunch::launcher {

OptionShape OptionDeclaration::shape() const {
    const auto all = split(names_, ',');
    const auto is_long = [](const std::string& name) { return name.starts_with("--"); };
    return {*std::find_if(all.begin(), all.end(), is_long), takes_value_};
}

void OptionDeclaration::add_to(OptionShapes& shapes) const {
    const OptionShape own = shape();
    for (const std::string& name : split(names_, ','))
        shapes[name] = own;
}

void OptionDeclaration::tell(CLI::App& app) const {
    CLI::Option* const option = tell_(app, *this);
    if (type_name_ != nullptr)
        option->type_name(type_name_);
    if (group_ != nullptr)
        option->group(group_);
    if (rule_ != nullptr)
        rule_(*option);
}

}  // namespace autolaunch::launcher
