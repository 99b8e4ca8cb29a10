#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::fsdp {

/// A tree of modules as frameworks have it, in the order in which it names its parts. Paths are
/// names joined by dots: "blocks.0.attention"; the root's is empty.
struct ModuleTree {
    struct Module {
        std::string path;
        bool is_container = false;  ///< only holds others, in a row: ModuleList, Sequential
    };
    struct Parameter {
        std::string path;  ///< "blocks.0.attention.weight"
        std::vector<std::int64_t> shape = {};
        bool trainable = true;
        const void* identity = nullptr;  ///< equal for names of one tensor: tied parameters
    };
    std::vector<Module> modules;
    std::vector<Parameter> parameters;
};

/// What becomes one Unit of a ShardedModel.
struct ModuleUnit {
    std::string name;
    std::vector<ParameterSpec> parameters;
    std::vector<std::size_t> sources;  ///< of each parameter, in ModuleTree::parameters
};

/// The modules that become units. `patterns` are paths in which "*" stands for one name:
/// "blocks.*". With none: what is in the outermost containers, so one unit a layer; a container in
/// a container is opened, one in a layer is not. Throws Error{invalid_argument} naming the nearest
/// path when a pattern fits nothing.
AUTOLAUNCH_API std::vector<std::string> choose_units(const ModuleTree& tree,
                                                     std::span<const std::string> patterns);

/// Every parameter in one unit: of the innermost chosen module around it, or else of the root's
/// child that it is in, or else of the unit "root". Full names are then the paths, but
/// "root.<name>" for the root's own parameters. A tied parameter has the first of its names. Units
/// are in the order of their first parameter.
AUTOLAUNCH_API std::vector<ModuleUnit> units_of(const ModuleTree& tree,
                                                std::span<const std::string> chosen);

}  // namespace autolaunch::fsdp
