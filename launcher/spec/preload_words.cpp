#include "spec/preload_words.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cctype>

namespace autolaunch::launcher {

bool is_module_name(std::string_view text) {
    const auto is_name = [](const std::string& name) {
        return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
               std::all_of(name.begin(), name.end(), [](unsigned char c) {
                   return c < 128 && (std::isalnum(c) != 0 || c == '_');
               });
    };
    const auto names = split(text, '.');
    return !names.empty() && std::all_of(names.begin(), names.end(), is_name);
}

std::optional<PreloadSpec> preload_word(std::string_view text) {
    if (text == "off")
        return PreloadSpec{.how = PreloadSpec::How::off, .modules = {}};
    if (text == "auto")
        return PreloadSpec{.how = PreloadSpec::How::automatic, .modules = {}};
    return std::nullopt;
}

std::optional<PreloadSpec> preload_from(const std::string& text) {
    if (const auto word = preload_word(text))
        return word;
    PreloadSpec listed{.how = PreloadSpec::How::listed, .modules = split(text, ',')};
    for (std::string& module : listed.modules)
        module = std::string(trim(module));
    if (!std::all_of(listed.modules.begin(), listed.modules.end(), is_module_name))
        return std::nullopt;
    return listed;
}

}  // namespace autolaunch::launcher
