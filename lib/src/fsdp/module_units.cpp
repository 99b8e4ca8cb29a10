#include "base/text.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/module_units.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace autolaunch::fsdp {

namespace {

bool is_inside(std::string_view path, std::string_view module) {
    return path.size() > module.size() && path.starts_with(module) &&
           (module.empty() || path[module.size()] == '.');
}

std::string parent_of(const std::string& path) {
    const auto dot = path.rfind('.');
    return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

bool fits(const std::string& path, const std::string& pattern) {
    if (path.empty())
        return false;
    const auto names = split(path, '.'), wanted = split(pattern, '.');
    return std::equal(
        names.begin(), names.end(), wanted.begin(), wanted.end(),
        [](const auto& name, const auto& want) { return want == "*" || want == name; });
}

bool has_parameters(const ModuleTree& tree, const std::string& path) {
    return std::any_of(tree.parameters.begin(), tree.parameters.end(),
                       [&](const auto& parameter) { return is_inside(parameter.path, path); });
}

void require_each_fits(const ModuleTree& tree, std::span<const std::string> patterns) {
    std::vector<std::string> paths;
    for (const auto& module : tree.modules)
        paths.push_back(module.path);
    for (const std::string& pattern : patterns) {
        if (std::any_of(paths.begin(), paths.end(),
                        [&](const auto& path) { return fits(path, pattern); }))
            continue;
        throw Error(ErrorCode::invalid_argument,
                    "no module fits the unit " + pattern + nearest_asked(pattern, paths),
                    "\"*\" stands for one name of a path: \"blocks.*\"");
    }
}

// Of the parts of containers that lie in containers only.
std::vector<std::string> parts_of_outer_containers(const ModuleTree& tree) {
    std::map<std::string, bool> opens;  // by path: a container outside any unit
    std::vector<std::string> chosen;
    for (const auto& module : tree.modules) {
        const std::string parent = parent_of(module.path);
        const bool in_unit = std::any_of(chosen.begin(), chosen.end(), [&](const auto& unit) {
            return is_inside(module.path, unit);
        });
        opens[module.path] = module.is_container && !in_unit;
        if (in_unit || module.is_container || module.path.empty())
            continue;
        if (opens[parent] && has_parameters(tree, module.path))
            chosen.push_back(module.path);
    }
    return chosen;
}

std::string unit_around(const std::string& parameter, std::span<const std::string> chosen) {
    std::string innermost;
    for (const std::string& unit : chosen)
        if (is_inside(parameter, unit) && unit.size() > innermost.size())
            innermost = unit;
    if (!innermost.empty())
        return innermost;
    const auto dot = parameter.find('.');
    return dot == std::string::npos ? std::string() : parameter.substr(0, dot);
}

}  // namespace

std::vector<std::string> choose_units(const ModuleTree& tree,
                                      std::span<const std::string> patterns) {
    if (patterns.empty())
        return parts_of_outer_containers(tree);
    require_each_fits(tree, patterns);
    std::vector<std::string> chosen;
    for (const auto& module : tree.modules) {
        const bool fitting =
            std::any_of(patterns.begin(), patterns.end(),
                        [&](const auto& pattern) { return fits(module.path, pattern); });
        if (fitting && has_parameters(tree, module.path))
            chosen.push_back(module.path);
    }
    return chosen;
}

std::vector<ModuleUnit> units_of(const ModuleTree& tree, std::span<const std::string> chosen) {
    std::vector<ModuleUnit> units;
    std::map<std::string, std::size_t> index_of;  // of the unit's path in `units`
    std::set<const void*> seen;
    for (std::size_t i = 0; i < tree.parameters.size(); ++i) {
        const auto& parameter = tree.parameters[i];
        if (parameter.identity && !seen.insert(parameter.identity).second)
            continue;
        const std::string path = unit_around(parameter.path, chosen);
        const auto [found, is_new] = index_of.emplace(path, units.size());
        if (is_new)
            units.push_back({path.empty() ? "root" : path, {}, {}});
        ModuleUnit& unit = units[found->second];
        const std::string name =
            path.empty() ? parameter.path : parameter.path.substr(path.size() + 1);
        unit.parameters.push_back({name, parameter.shape, parameter.trainable});
        unit.sources.push_back(i);
    }
    return units;
}

}  // namespace autolaunch::fsdp
