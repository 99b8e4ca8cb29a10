#pragma once
#include "cli/argument_splitter.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// An option before CLI11 knows it. CLI11 compares each new option's names with those of all
/// others, which takes longer than a rank takes to start: it is told of those that are given alone,
/// and of all for the help.
class OptionDeclaration {
public:
    using Tell = std::function<CLI::Option*(CLI::App&, const OptionDeclaration&)>;
    using Rule = void (*)(CLI::Option&);

    /// `names` as CLI11 takes them: "-n,--nproc-per-node".
    OptionDeclaration(const char* names, bool takes_value, const char* description, Tell tell)
        : names_(names),
          takes_value_(takes_value),
          description_(description),
          tell_(std::move(tell)) {}

    OptionDeclaration& type_name(const char* name) { return set(type_name_, name); }
    OptionDeclaration& group(const char* name) { return set(group_, name); }
    /// What CLI11 is to check besides.
    OptionDeclaration& rule(Rule besides) { return set(rule_, besides); }

    const char* names() const { return names_; }
    const char* description() const { return description_; }
    /// Its long name with the dashes, the first where it has several.
    OptionShape shape() const;
    /// Under every name it has.
    void add_to(OptionShapes& shapes) const;
    void tell(CLI::App& app) const;

private:
    template <class T>
    OptionDeclaration& set(T& member, T value) {
        member = value;
        return *this;
    }

    const char* names_;
    bool takes_value_;
    const char* description_;
    const char* type_name_ = nullptr;
    const char* group_ = nullptr;
    Rule rule_ = nullptr;
    Tell tell_;
};

}  // namespace autolaunch::launcher
