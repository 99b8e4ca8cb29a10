#include "report/screen.hpp"

#include "base/file_io.hpp"
#include "report/terminal_text.hpp"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cstdio>

namespace autolaunch::launcher {

namespace {

constexpr const char* kStdout = "the standard output";

}  // namespace

Screen::Screen(const std::map<std::string, std::string>& environment, Secrets secrets)
    : known_(secret_values(environment)), secrets_(secrets) {}

std::string Screen::masked(std::string_view text) const {
    return secrets_ == Secrets::show ? std::string(text) : mask_secrets(text, known_);
}

void Screen::print(std::string_view text) const {
    write_all(STDOUT_FILENO, escape_lines(masked(text), Colours::keep), kStdout);
}

// A mask on the text itself could end a string too late.
std::string Screen::masked_json(std::string_view text) const {
    using Json = nlohmann::ordered_json;
    const Json tree = secrets_ == Secrets::show ? Json() : Json::parse(text, nullptr, false);
    if (!tree.is_structured())
        return std::string(text);
    Json safe = tree;
    mask_texts(safe, known_);
    return safe == tree ? std::string(text)
                        : safe.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

void Screen::print_json(std::string_view text) const {
    write_all(STDOUT_FILENO, escape_json(masked_json(text)), kStdout);
}

void Screen::complain(std::string_view text) const {
    std::fputs((escape_lines(masked(text), Colours::keep) + '\n').c_str(), stderr);
}

}  // namespace autolaunch::launcher
