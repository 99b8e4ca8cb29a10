#pragma once
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// How our own text looks: colours or none, and how wide the terminal is.
struct TextStyle {
    bool colours = false;
    int columns = 80;

    std::string bold(std::string_view text) const { return paint("1", text); }
    std::string dim(std::string_view text) const { return paint("2", text); }
    std::string red(std::string_view text) const { return paint("1;31", text); }
    std::string yellow(std::string_view text) const { return paint("33", text); }
    std::string green(std::string_view text) const { return paint("32", text); }

private:
    std::string paint(std::string_view code, std::string_view text) const {
        if (!colours)
            return std::string(text);
        return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
    }
};

}  // namespace autolaunch::launcher
