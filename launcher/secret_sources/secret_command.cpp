#include "secret_sources/secret_command.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "secret_sources/secret_file.hpp"
#include "spawn/captured_command.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <memory>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

[[noreturn]] void refuse_command(const std::string& what, const std::string& why,
                                 std::string hint = {}, int code = exit_code::kUnavailable) {
    throw ExitError(code, ErrorCode::system, what + ": " + why, std::move(hint));
}

std::unique_ptr<CapturedCommand> started(const std::string& what,
                                         const std::vector<std::string>& argv) {
    try {
        return std::make_unique<CapturedCommand>(argv, "", kLongestSecret);
    } catch (const SystemError& error) {
        refuse_command(what, error.what(), error.hint(), exit_code::kSystem);
    }
}

// What it printed is nowhere in an error, also where it says it twice.
std::string without(std::string text, const std::string& printed) {
    for (const auto& line : split(printed, '\n')) {
        const std::string part(trim(line));
        for (std::size_t at = text.find(part); part.size() >= 4 && at != std::string::npos;
             at = text.find(part, at + 3))
            text.replace(at, part.size(), "***");
    }
    return text;
}

}  // namespace

std::string read_secret_of_command(const std::string& what, const std::vector<std::string>& argv,
                                   const Deadline& deadline) {
    const std::string hint =
        "it runs without a shell, on the head's node, and prints the secret and nothing else";
    const auto command = started(what, argv);
    const bool whole = command->wait(deadline);
    if (const int error = command->not_executed())
        refuse_command(
            what, argv[0] + " cannot be executed: " + std::generic_category().message(error), hint);
    if (!whole && command->printed_too_much())
        refuse_command(what, argv[0] + " prints more than 1 MiB", hint, exit_code::kBadData);
    const std::string said = without(command->complaint(), command->printed());
    if (!whole)
        refuse_command(what, argv[0] + " has not ended in its time" + said,
                       "does it ask for something? It has no terminal and no input");
    if (WIFSIGNALED(command->status()))
        refuse_command(
            what,
            fmt::format("{} was ended by signal {}{}", argv[0], WTERMSIG(command->status()), said),
            hint);
    if (WEXITSTATUS(command->status()) != 0)
        refuse_command(what,
                       fmt::format("{} ended with exit code {}{}", argv[0],
                                   WEXITSTATUS(command->status()), said),
                       hint);
    if (command->printed().find_first_not_of("\r\n") == std::string::npos)
        refuse_command(what, argv[0] + " printed nothing" + said, hint, exit_code::kBadData);
    return std::move(command->printed());
}

}  // namespace autolaunch::launcher
