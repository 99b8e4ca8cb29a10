// Every specification in configs/ is valid, in the environment that it is meant for.

#include "spec/spec.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace configs_test {

using namespace autolaunch::launcher;
namespace fs = std::filesystem;

TEST_CASE("every spec in configs/ and configs/pipeline is valid, with a program or stages") {
    const std::map<std::string, std::string> environment = {
        {"HOME", "/home/user"},       {"USER", "user"},
        {"SLURM_JOB_ID", "4711"},     {"SLURM_NNODES", "2"},
        {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NAME", "job"}};
    std::vector<fs::path> files;
    for (const char* folder : {"configs", "configs/pipeline"})
        for (const auto& entry : fs::directory_iterator(fs::path(AUTOLAUNCH_SOURCE_DIR) / folder))
            if (entry.path().extension() == ".yaml" && entry.path().filename() != "common.yaml")
                files.push_back(entry.path());
    REQUIRE_FALSE(files.empty());
    for (const auto& file : files) {
        const SpecResult result = load_spec({file.string(), {}, environment});
        for (const auto& error : result.errors)
            FAIL_CHECK(to_string(error));
        CHECK_MESSAGE(result.spec.trainer.command.empty() != result.spec.pipeline.empty(),
                      file.string());
        CHECK(nlohmann::json::parse(result.spec.trainer_config).is_object());
    }
}

}  // namespace configs_test
