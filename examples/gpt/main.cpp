// gpt: trains a small byte-level GPT through libautolaunch, alone or on any number of ranks. See
// ../README.md.
#include "presets.hpp"
#include "trainer.hpp"

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>

namespace {

constexpr char kUsage[] =
    "usage: gpt [--preset NAME] [--config FILE.json]\n"
    "Without --config it reads the configuration its launcher passes on, else its defaults.\n"
    "Presets: ";

std::string usage() {
    std::string text = kUsage;
    for (const auto& preset : gpt::presets())
        text += std::string(preset.name) + (&preset == &gpt::presets().back() ? "\n" : ", ");
    return text;
}

std::string text_of(const std::string& path) {
    std::ifstream in(path);
    if (!in)
        throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct Options {
    std::string config;
    std::string preset;
};

void train(const Options& options) {
    auto session = autolaunch::Session::from_environment();
    const auto config = gpt::parse_trainer_config(
        options.config.empty() ? session.trainer_config() : text_of(options.config),
        options.preset);
    const auto loop = [&] { gpt::Trainer(session, config).run(); };
    config.in_place ? session.run(loop) : loop();
}

/// Nothing when the command line makes no sense.
std::optional<Options> options_of(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i];
        if (i + 1 == argc || (name != "--config" && name != "--preset"))
            return std::nullopt;
        (name == "--config" ? options.config : options.preset) = argv[i + 1];
    }
    return options;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "--help") {
        std::fputs(usage().c_str(), stdout);
        return 0;
    }
    const auto options = options_of(argc, argv);
    if (!options) {
        std::fputs(usage().c_str(), stderr);
        return 2;
    }
    try {
        train(*options);
        return 0;
    } catch (const autolaunch::Error& error) {
        std::fprintf(stderr, "gpt: %s\n%s%s", error.what(), error.hint().c_str(),
                     error.hint().empty() ? "" : "\n");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gpt: %s\n", error.what());
    }
    return 1;
}
