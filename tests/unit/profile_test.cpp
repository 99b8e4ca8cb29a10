// Files of NCCL settings: their form, and those that come with autolaunch.

#include "spec/profile.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include <unistd.h>

namespace profile_test {

using namespace autolaunch::launcher;
using autolaunch::Error;
using autolaunch::SystemError;
namespace fs = std::filesystem;

namespace {

const std::string kFolder = std::string(AUTOLAUNCH_SOURCE_DIR) + "/configs/profiles";

struct Folder {
    fs::path path;
    Folder() {
        std::string name = fs::temp_directory_path() / "profile-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
    std::string write(const std::string& text) const {
        std::ofstream(path / "mine.yaml") << text;
        return path / "mine.yaml";
    }
};

// What is wrong, without the folder's name.
std::string refusal(const std::string& text) {
    const Folder folder;
    const std::string path = folder.write(text);
    try {
        read_profile(path);
    } catch (const Error& error) {
        std::string what = error.what();
        for (auto at = what.find(path); at != std::string::npos; at = what.find(path))
            what.replace(at, path.size(), "F");
        return what;
    }
    return {};
}

}  // namespace

TEST_CASE("a profile's parts") {
    const Folder folder;
    const auto profile = read_profile(folder.write(R"(
description: mine
match: {sys_vendor: Example}
set: {NCCL_IB_SL: {value: 1, reason: fabric, source: us}}
set_with_roce: {NCCL_IB_TC: {value: 41, reason: lossless, source: us}}
leave: {NCCL_PROTO: {reason: plugin, source: them}}
topology_files: {paths: [/a, /b], reason: flat, source: us}
notes: [read this]
)"));
    CHECK(profile.name == "mine");
    CHECK(profile.description == "mine");
    CHECK(profile.match == std::map<std::string, std::string>{{"sys_vendor", "Example"}});
    REQUIRE(profile.set.size() == 1);
    CHECK(profile.set[0].name == "NCCL_IB_SL");
    CHECK(profile.set[0].value == "1");
    CHECK(profile.set[0].source == "us");
    CHECK(profile.set_with_roce[0].value == "41");
    CHECK(profile.leave[0].name == "NCCL_PROTO");
    CHECK(profile.topology_files.paths == std::vector<std::string>{"/a", "/b"});
    CHECK(profile.notes == std::vector<std::string>{"read this"});
    CHECK(read_profile(folder.write("")).set.empty());
}

TEST_CASE("whatever is wrong is named with its line and key, all at once") {
    CHECK(refusal("sett: {}\n")
              .starts_with("F:1:1: sett: unknown key; there are description, match, set,"));
    CHECK(refusal("set: {NCCL_IB_SL: {value: 1, source: us}}") ==
          "F:1:19: set.NCCL_IB_SL: lacks reason");
    CHECK(refusal("set: {NCCL_IB_SL: {value: 1, reason: r}}") ==
          "F:1:19: set.NCCL_IB_SL: lacks source");
    CHECK(refusal("leave: {NCCL_X: {value: 1, reason: r, source: s}}")
              .find("leave.NCCL_X.value: unknown key") != std::string::npos);
    CHECK(refusal("set: {PATH: {value: 1, reason: r, source: s}}").find("begins with NCCL_") !=
          std::string::npos);
    CHECK(refusal("match: {board: x}").find("match.board: unknown key; there are sys_vendor") !=
          std::string::npos);
    CHECK(refusal("set: [1]").find("expected a mapping") != std::string::npos);
    CHECK(refusal("notes: x").find("expected a list") != std::string::npos);
    CHECK(refusal("set: {NCCL_IB_SL: {value: [1], reason: r, source: s}}").find("expected text") !=
          std::string::npos);
    const std::string two = refusal("a: 1\nb: 2\n");
    CHECK(two.find("F:1:1: a") != std::string::npos);
    CHECK(two.find("F:2:1: b") != std::string::npos);
    CHECK_FALSE(refusal("set: {").empty());
}

TEST_CASE("the profiles that come with autolaunch") {
    const auto names = profile_names(kFolder);
    CHECK(names == std::vector<std::string>{"aws", "azure", "coreweave", "gcp", "generic", "oci",
                                            "slingshot"});
    std::set<std::map<std::string, std::string>> matches;
    for (const auto& name : names) {
        const auto profile = find_profile(name, kFolder);
        INFO(name);
        CHECK(profile.name == name);
        CHECK_FALSE(profile.description.empty());
        for (const auto* list : {&profile.set, &profile.set_with_roce, &profile.leave})
            for (const auto& variable : *list)
                CHECK(variable.source.starts_with("https://"));
        if (!profile.match.empty())
            CHECK(matches.insert(profile.match).second);
    }
    CHECK(find_profile("aws", kFolder).set.empty());
    CHECK(find_profile("generic", kFolder).set.empty());
    CHECK_FALSE(find_profile("gcp", kFolder).notes.empty());
}

TEST_CASE("a profile that is missing: which there are") {
    const auto hint_of = [](const std::string& word, const std::string& folder) {
        try {
            find_profile(word, folder);
        } catch (const Error& error) {
            CHECK(std::string(error.what()).find(word) != std::string::npos);
            return error.hint();
        }
        return std::string("nothing was thrown");
    };
    CHECK(hint_of("azur", kFolder) ==
          "did you mean azure? there are aws, azure, coreweave, gcp, generic, oci, slingshot; also "
          "auto, "
          "none, or the path of a "
          "file");
    CHECK(hint_of("./none.yaml", kFolder).starts_with("there are aws, azure"));
    CHECK(hint_of("aws", "/no/such").starts_with("there are none in /no/such"));
    const Folder folder;
    CHECK(find_profile(folder.write("description: x"), kFolder).description == "x");
}

TEST_CASE("a profile that cannot be looked at is an error, and none that is missing") {
    const std::string longer = std::string(300, 'a');
    const Folder folder;
    fs::create_symlink("loop.yaml", folder.path / "loop.yaml");
    for (const std::string& path : {"/tmp/" + longer, (folder.path / "loop.yaml").string()}) {
        INFO(path);
        try {
            find_profile(path, kFolder);
            FAIL_CHECK("nothing was thrown");
        } catch (const SystemError& error) {
            CHECK(std::string(error.what()).find(path) != std::string::npos);
            CHECK((error.error_number() == ENAMETOOLONG || error.error_number() == ELOOP));
        }
    }
    // No profile can have such a name: it is one that is not there.
    CHECK_THROWS_WITH_AS(find_profile(longer, kFolder),
                         ("nccl.profile: there is no profile " + longer).c_str(), Error);
    CHECK(profile_names("/no/such").empty());
    CHECK_THROWS_AS(profile_names("/tmp/" + longer), SystemError);
}

}  // namespace profile_test
