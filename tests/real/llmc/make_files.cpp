// The files that llm.c's train_gpt2 reads, of random values: gpt2_124M.bin, weights as GPT-2's are
// before training, tokens, and a tokenizer that has a word for each.
//     make_files LAYERS HEADS WIDTH CONTEXT VOCABULARY TOKENS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Header = std::vector<std::int32_t>;  // 256 numbers

template <class T>
void write(std::ofstream& file, const std::vector<T>& values) {
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
    if (!file)
        throw std::runtime_error("a file could not be written");
}

std::ofstream begin(const std::string& path, Header header) {
    std::ofstream file(path, std::ios::binary);
    header.resize(256);
    write(file, header);
    return file;
}

struct Sizes {
    std::int32_t layers, heads, width, context, vocabulary;
};

void write_model(const Sizes& sizes) {
    const std::int32_t padded = (sizes.vocabulary + 127) / 128 * 128;
    auto file = begin("gpt2_124M.bin", {20240326, 3, sizes.context, sizes.vocabulary, sizes.layers,
                                        sizes.heads, sizes.width, padded});
    std::minstd_rand random(1);
    std::normal_distribution<float> normal(0.0f, 0.02f);
    const auto tensor = [&](std::int64_t count, float constant, bool is_random = false) {
        std::vector<float> values(static_cast<std::size_t>(count), constant);
        if (is_random)
            for (float& value : values)
                value = normal(random);
        write(file, values);
    };
    const std::int64_t c = sizes.width, l = sizes.layers;
    tensor(padded * c, 0, true);         // wte
    tensor(sizes.context * c, 0, true);  // wpe
    for (const std::int64_t outputs : {std::int64_t{0}, 3 * c, c, std::int64_t{0}, 4 * c}) {
        if (outputs == 0) {  // a norm's weight and bias
            tensor(l * c, 1);
            tensor(l * c, 0);
            continue;
        }
        tensor(l * outputs * c, 0, true);
        tensor(l * outputs, 0);
    }
    tensor(l * c * 4 * c, 0, true);  // fcprojw and its bias
    tensor(l * c, 0);
    tensor(c, 1);  // lnf
    tensor(c, 0);
}

// Text of a kind: a token mostly follows from the one before, so there is something to learn.
void write_tokens(const std::string& path, std::int32_t count, std::int32_t vocabulary,
                  std::uint32_t seed) {
    auto file = begin(path, {20240520, 1, count});
    std::minstd_rand random(seed);
    std::vector<std::uint16_t> tokens(static_cast<std::size_t>(count));
    std::uint32_t token = 1;
    for (auto& each : tokens) {
        token = random() % 4 == 0 ? static_cast<std::uint32_t>(random()) : token * 31 + 7;
        token %= static_cast<std::uint32_t>(vocabulary);
        each = static_cast<std::uint16_t>(token);
    }
    write(file, tokens);
}

void write_tokenizer(std::int32_t vocabulary) {
    auto file = begin("gpt2_tokenizer.bin", {20240328, 2, vocabulary, vocabulary - 1});
    for (std::int32_t token = 0; token < vocabulary; ++token) {
        const std::string word = std::to_string(token) + " ";
        file << static_cast<char>(word.size()) << word;
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 7) {
        std::fputs("make_files LAYERS HEADS WIDTH CONTEXT VOCABULARY TOKENS\n", stderr);
        return 64;
    }
    const auto number = [&](int index) { return std::atoi(argv[index]); };
    const Sizes sizes{number(1), number(2), number(3), number(4), number(5)};
    write_model(sizes);
    write_tokenizer(sizes.vocabulary);
    const std::string folder = "dev/data/tinyshakespeare";
    std::filesystem::create_directories(folder);
    write_tokens(folder + "/tiny_shakespeare_train.bin", number(6), sizes.vocabulary, 2);
    write_tokens(folder + "/tiny_shakespeare_val.bin", number(6) / 4, sizes.vocabulary, 3);
}
