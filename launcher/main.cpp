// autolaunch, the program. What it does is in cli/program.cpp.
#include "cli/program.hpp"

#include <map>
#include <string>
#include <vector>

extern char** environ;

namespace {

std::map<std::string, std::string> environment() {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const std::size_t equals = text.find('=', 1);
        if (equals != std::string::npos)
            variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return variables;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return autolaunch::launcher::run_program(arguments, environment());
}
