#include "report/screen.hpp"

#include "base/file_io.hpp"
#include "report/console.hpp"
#include "report/terminal_text.hpp"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cstdio>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStdout = "the standard output";

}  // namespace

Screen::Screen(const std::map<std::string, std::string>& environment, Secrets secrets)
    : environment_(environment), secrets_(secrets) {
    const auto set = [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? std::string_view() : std::string_view(found->second);
    };
    charset_ = charset_of(set("LC_ALL"), set("LC_CTYPE"), set("LANG"));
}

std::string Screen::safe(std::string_view text) const {
    return in_charset(escape_lines(masked(text), Colours::keep), charset_);
}

std::string Screen::masked(std::string_view text) const {
    return secrets_ == Secrets::show ? std::string(text)
                                     : mask_secrets(text, secret_values(environment_));
}

void Screen::print(std::string_view text) const { write_all(STDOUT_FILENO, safe(text), kStdout); }

// A mask on the text itself could end a string too late.
std::string Screen::masked_json(std::string_view text) const {
    const Json tree = secrets_ == Secrets::show ? Json() : Json::parse(text, nullptr, false);
    if (!tree.is_structured())
        return std::string(text);
    Json safe = tree;
    mask_texts(safe, secret_values(environment_));
    return safe == tree ? std::string(text)
                        : safe.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

void Screen::print_json(std::string_view text) const {
    write_all(STDOUT_FILENO, escape_json(masked_json(text), charset_), kStdout);
}

void Screen::complain(std::string_view text) const {
    std::fputs((safe(text) + '\n').c_str(), stderr);
}

TextStyle style_of_stdout() {
    const ConsoleOptions console = ConsoleOptions::from_environment();
    return {.colours = console.colours && ::isatty(STDOUT_FILENO) != 0};
}

}  // namespace autolaunch::launcher
