// What a public class hands out of itself, by pointer, reference or view, dangles when it is taken
// from a temporary: such a member is for named objects only (borrowed.hpp), or is listed here with
// the reason why no temporary can be meant. Checked on the text.

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace public_views_test {

namespace fs = std::filesystem;
using autolaunch::read_file;
using autolaunch::split;
using autolaunch::trim;

namespace {

const fs::path kHeaders = fs::path(AUTOLAUNCH_SOURCE_DIR) / "lib/include/autolaunch";

/// By header: members, and why they need no overload for temporaries.
const std::map<std::string, std::map<std::string, std::string>> kNotFromTemporaries = {
    {"fsdp/sharded_model.hpp",
     {{"name", "a Unit is the model's, and neither made nor moved by others"},
      {"parameters", "of a Unit"},
      {"grad", "of a Unit"},
      {"impl", "of a Unit, for the library"}}},
    {"comm/device.hpp", {{"handle", "somebody else's: a Stream owns nothing"}}},
    {"torch/parameter_memory.hpp",
     {{"name", "fixed in its place, and the adapter's own"}, {"parameter", "the same"}}},
    {"torch/torch_engine.hpp",
     {{"sharded", "shared, and the adapter's own"},
      {"module", "the same"},
      {"state", "the same"},
      {"copy_of", "the same"}}},
};

/// A header's declarations, each on one line, without comments and directives.
std::vector<std::string> declarations_of(const std::string& text) {
    std::string code;
    for (const std::string& line : split(text, '\n')) {
        const std::string_view trimmed = trim(line);
        if (!trimmed.starts_with('#'))
            code += std::string(trimmed.substr(0, trimmed.find("//"))) + ' ';
    }
    std::replace_if(
        code.begin(), code.end(), [](char letter) { return letter == '{' || letter == '}'; }, ';');
    static const std::regex kBlanks(" +");
    return split(std::regex_replace(code, kBlanks, " "), ';');
}

/// The member that hands out a part of its object, whatever that is; "" for other declarations.
std::string unqualified_view(const std::string& declaration) {
    static const std::regex kMember(
        R"re(^(?:.*: )?(?:\[\[nodiscard\]\] )?(?:(?:const )?[\w:]+(?:<[^()]*>)?(?: const)? ?[&*]|std::span<[^()]*>|std::string_view|TensorView|State) (operator\[\]|\w+)\((?:[^()]|\([^()]*\))*\)(?: const)?(?: noexcept)?$)re");
    std::smatch found;
    const std::string trimmed(trim(declaration));
    return std::regex_match(trimmed, found, kMember) ? found[1].str() : "";
}

}  // namespace

TEST_CASE("what looks into its object is not to be had of a temporary") {
    int headers = 0, listed = 0;
    for (const auto& entry : fs::recursive_directory_iterator(kHeaders)) {
        if (entry.path().extension() != ".hpp")
            continue;
        ++headers;
        const std::string name = fs::relative(entry.path(), kHeaders).string();
        const auto reasons = kNotFromTemporaries.find(name);
        for (const std::string& declaration : declarations_of(read_file(entry.path()))) {
            const std::string member = unqualified_view(declaration);
            if (member.empty())
                continue;
            const bool has_reason =
                reasons != kNotFromTemporaries.end() && reasons->second.contains(member);
            CHECK_MESSAGE(has_reason, name, ": ", declaration,
                          " needs & and an overload for && (borrowed.hpp)");
            listed += has_reason ? 1 : 0;
        }
    }
    CHECK(headers > 25);
    CHECK(listed >= 10);
}

TEST_CASE("the check knows what looks into an object") {
    for (const char* text :
         {"const std::string& name() const noexcept", "std::span<const float> values() const",
          "public: TensorView operator[](std::string_view name) const", "float* data()",
          "[[nodiscard]] State state()", "const Tensor* find(std::string_view name) const"})
        CHECK_MESSAGE(!unqualified_view(text).empty(), text);
    for (const char* text :
         {"const std::string& name() const& noexcept", "TensorView at(int i) const&",
          "Session& operator=(Session&&) noexcept", "std::string name() const",
          "std::string_view name_of(DataType type) noexcept = 0", "State state() &&"})
        CHECK_MESSAGE(unqualified_view(text).empty(), text);
}

}  // namespace public_views_test
