// autolaunch, the program. What it does is in cli/program.cpp.
#include "base/environment.hpp"
#include "cli/hidden_arguments.hpp"
#include "cli/program.hpp"

#include <string>
#include <vector>

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    autolaunch::launcher::hide_arguments(argc, argv);
    return autolaunch::launcher::run_program(arguments, autolaunch::environment_of_process());
}
