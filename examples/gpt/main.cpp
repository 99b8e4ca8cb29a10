// gpt: trains a small byte-level GPT through libautolaunch, alone or on any number of ranks. See ../README.md.
#include "trainer.hpp"

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace {

constexpr char kUsage[] =
    "usage: gpt [--config FILE.json]\n"
    "Without --config it reads the configuration its launcher passes on, else its defaults.\n";

std::string text_of(const std::string& path) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void train(const std::string& config_path) {
    auto session = autolaunch::Session::from_environment();
    const auto config =
        gpt::parse_trainer_config(config_path.empty() ? session.trainer_config() : text_of(config_path));
    gpt::Trainer(session, config).run();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string option = argc > 1 ? argv[1] : "";
    if (option == "--help") {
        std::fputs(kUsage, stdout);
        return 0;
    }
    if (argc > 1 && (option != "--config" || argc != 3)) {
        std::fputs(kUsage, stderr);
        return 2;
    }
    try {
        train(argc == 3 ? argv[2] : "");
        return 0;
    } catch (const autolaunch::Error& error) {
        std::fprintf(stderr, "gpt: %s\n%s%s", error.what(), error.hint().c_str(), error.hint().empty() ? "" : "\n");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gpt: %s\n", error.what());
    }
    return 1;
}
