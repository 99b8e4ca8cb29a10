#include <autolaunch/data/token_reader.hpp>
#include <autolaunch/error.hpp>

#include <cstdlib>

namespace autolaunch::data {

std::filesystem::path staged_data(const std::string& name) {
    std::string variable = "AUTOLAUNCH_DATA_";
    for (const char letter : name) {
        const bool is_small = letter >= 'a' && letter <= 'z';
        const bool is_word = is_small || (letter >= 'A' && letter <= 'Z') ||
                             (letter >= '0' && letter <= '9') || letter == '_';
        if (!is_word)
            throw Error(ErrorCode::invalid_argument, "\"" + name + "\" is no name of staged data",
                        "names have letters, digits and _");
        variable += is_small ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
    const char* const value = std::getenv(variable.c_str());
    if (!value || *value == '\0')
        throw Error(
            ErrorCode::invalid_argument,
            "no data of the name \"" + name + "\" is on this node: " + variable + " is not set",
            "the job's spec brings it: storage: {stage_in: [{from: /shared/" + name +
                ", as: " + name + "}]}; or set " + variable + " to its path");
    return value;
}

}  // namespace autolaunch::data
