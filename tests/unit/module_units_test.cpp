// Which parts of a tree of modules become units, and which parameters they have.
#include "base/text.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/module_units.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace module_units_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;

namespace {

// "blocks." is a container, "blocks.0" is not; parameters have a shape of one.
ModuleTree tree_of(const std::vector<std::string>& modules,
                   const std::vector<std::string>& parameters) {
    ModuleTree tree;
    tree.modules.push_back({});
    for (const std::string& path : modules) {
        const bool is_container = path.back() == '.';
        tree.modules.push_back(
            {is_container ? path.substr(0, path.size() - 1) : path, is_container});
    }
    for (const std::string& path : parameters)
        tree.parameters.push_back({path, {1}});
    return tree;
}

std::string chosen(const ModuleTree& tree, const std::vector<std::string>& patterns = {}) {
    return join(choose_units(tree, patterns), " ");
}

// "unit: parameter parameter; unit: parameter"
std::string units(const ModuleTree& tree, const std::vector<std::string>& patterns = {}) {
    std::vector<std::string> texts;
    for (const ModuleUnit& unit : units_of(tree, choose_units(tree, patterns))) {
        texts.push_back(unit.name + ":");
        for (const auto& parameter : unit.parameters)
            texts.back() += " " + parameter.name;
    }
    return join(texts, "; ");
}

const ModuleTree kTransformer = tree_of(
    {"embedding", "blocks.", "blocks.0", "blocks.0.mlp.", "blocks.0.mlp.0", "blocks.0.mlp.1",
     "blocks.1", "blocks.1.mlp.", "blocks.1.mlp.0", "blocks.1.mlp.1", "norm"},
    {"place", "embedding.weight", "blocks.0.w", "blocks.0.mlp.0.w", "blocks.1.w",
     "blocks.1.mlp.0.w", "norm.w"});

}  // namespace

TEST_CASE("by default a layer is a unit: what lies in the outermost containers") {
    CHECK(chosen(kTransformer) == "blocks.0 blocks.1");
    // A row of layers in a row, as a Sequential model has them; what has no parameters is no unit.
    CHECK(chosen(tree_of({"0", "1.", "1.0", "1.1", "2"}, {"0.w", "1.0.w", "2.w"})) == "1.0");
    ModuleTree sequential = tree_of({"0", "1.", "1.0", "1.1", "2"}, {"0.w", "1.0.w", "2.w"});
    sequential.modules[0].is_container = true;
    CHECK(chosen(sequential) == "0 1.0 2");
    // Containers deep in plain modules.
    CHECK(chosen(tree_of({"encoder", "encoder.layers.", "encoder.layers.0", "decoder",
                          "decoder.layers.", "decoder.layers.0"},
                         {"encoder.layers.0.w", "decoder.layers.0.w"})) ==
          "encoder.layers.0 decoder.layers.0");
    CHECK(chosen(tree_of({"a", "b"}, {"a.w", "b.w"})).empty());
}

TEST_CASE("patterns name units by paths") {
    CHECK(chosen(kTransformer, {"blocks.*.mlp", "norm"}) == "blocks.0.mlp blocks.1.mlp norm");
    CHECK(chosen(kTransformer, {"blocks.1"}) == "blocks.1");
    CHECK(chosen(kTransformer, {"*"}) == "embedding blocks norm");
    try {
        choose_units(kTransformer, std::vector<std::string>{"block.1"});
        FAIL("a pattern that fits nothing was accepted");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        CHECK(std::string(error.what()) ==
              "no module fits the unit block.1; did you mean blocks.1?");
        CHECK(error.hint() == "\"*\" stands for one name of a path: \"blocks.*\"");
    }
}

TEST_CASE("each parameter is in one unit, under its own name") {
    CHECK(units(kTransformer) ==
          "root: place; embedding: weight; blocks.0: w mlp.0.w; blocks.1: w mlp.0.w; norm: w");
    CHECK(units(kTransformer, {"blocks.*", "blocks.1.mlp"}) ==
          "root: place; embedding: weight; blocks.0: w mlp.0.w; blocks.1: w; blocks.1.mlp: 0.w; "
          "norm: w");
    // A name that begins like another.
    CHECK(units(tree_of({"h.", "h.1", "h.10"}, {"h.1.w", "h.10.w"})) == "h.1: w; h.10: w");
}

TEST_CASE("tied parameters are there once, frozen ones stay frozen") {
    ModuleTree tree =
        tree_of({"embedding", "head"}, {"embedding.weight", "head.bias", "head.weight"});
    tree.parameters[0].identity = tree.parameters[2].identity = &tree;
    tree.parameters[0].trainable = false;
    CHECK(units(tree) == "embedding: weight; head: bias");
    const auto made = units_of(tree, {});
    CHECK_FALSE(made[0].parameters[0].trainable);
    CHECK(made[1].parameters[0].trainable);
    CHECK(made[1].sources == std::vector<std::size_t>{1});
}

}  // namespace module_units_test
