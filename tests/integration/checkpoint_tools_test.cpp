// `autolaunch ckpt` on what somebody may have damaged or forged.
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "checkpoint/format/tensor_index.hpp"
#include "checkpoints/byte_progress.hpp"
#include "checkpoints/checkpoint_command.hpp"
#include "checkpoints/checkpoint_writer.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/terminal_text.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace checkpoint_tools_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
namespace fs = std::filesystem;

namespace {

/// A folder with one checkpoint of two ranks: runs/step-00000005.
class Workplace {
public:
    Workplace() : path_(fs::temp_directory_path() / ("autolaunch-ckpt-" + random_hex(8))) {
        Manifest described;
        described.step = 5;
        described.tensors = {
            {"h.0.w", f32, {40, 30}, {}}, {"ids", i64, {500}, {}}, {"e", u8, {0}, {}}};
        write_checkpoint(
            *make_posix_storage(), runs(), described, {2, {}}, [](const fsdp::State& state) {
                for (const auto& tensor : state)
                    for (const auto& piece : tensor.pieces)
                        std::fill_n(piece.data,
                                    static_cast<std::size_t>(piece.count) * size_of(tensor.type),
                                    std::byte{7});
            });
    }
    ~Workplace() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Workplace(const Workplace&) = delete;

    fs::path runs() const { return path_ / "runs"; }
    fs::path checkpoint() const { return runs() / "step-00000005"; }
    fs::path manifest() const { return checkpoint() / "manifest.json"; }
    fs::path out() const { return path_ / "out"; }
    std::vector<fs::path> shards() const {
        std::vector<fs::path> files;
        for (const auto& entry : fs::directory_iterator(checkpoint()))
            if (entry.path().extension() == ".safetensors")
                files.push_back(entry.path());
        std::sort(files.begin(), files.end());  // a file system has an order of its own
        return files;
    }
    fs::path shard_with(const std::string& tensor) const {
        for (const fs::path& shard : shards())
            if (read_file(shard).find('"' + tensor + '"') != std::string::npos)
                return shard;
        throw std::runtime_error("no shard has " + tensor);
    }
    std::size_t entries() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
    }

private:
    fs::path path_;
};

// What a command says: its exit code, or that of the error that it throws. Anything but an Error
// escapes.
int code_of(const CheckpointRequest& request) {
    try {
        return run_checkpoint_command(request).exit_code;
    } catch (const Error& error) {
        return 1000 + static_cast<int>(error.code());
    }
}

constexpr int kCorrupt = 1000 + static_cast<int>(ErrorCode::corrupt);

CheckpointRequest request_of(CheckpointAction action, std::vector<std::string> paths) {
    CheckpointRequest request;
    request.action = action;
    request.paths = std::move(paths);
    request.all = true;
    return request;
}

// Everything that reads a checkpoint refuses it, verify reports it, and nothing is written
// anywhere.
void require_refused(const Workplace& place) {
    const std::string path = place.checkpoint();
    const std::size_t entries = place.entries();
    CHECK(code_of(request_of(CheckpointAction::verify, {path})) == exit_code::kFindings);
    CHECK(code_of(request_of(CheckpointAction::show, {path})) == kCorrupt);
    CHECK(code_of(request_of(CheckpointAction::diff, {path, path})) == kCorrupt);
    CHECK(code_of(request_of(CheckpointAction::export_tensors,
                             {path, place.out() / "m.safetensors"})) == kCorrupt);
    CHECK(code_of(request_of(CheckpointAction::reshard, {path, place.out()})) == kCorrupt);
    CHECK(code_of(request_of(CheckpointAction::list, {place.runs()})) == exit_code::kSuccess);
    CHECK(place.entries() == entries);
}

void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<long>(bytes.size()));
}

// With `from` replaced and a right digest.
std::string forged(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const std::string body = text.substr(text.find(":\"") + 2 + 32);
    return text.replace(text.find(":\"") + 2, 32, hex128(hash128(body.data(), body.size())));
}

}  // namespace

TEST_CASE(
    "a forged manifest with a right digest is refused by every command, and nothing is written") {
    Workplace place;
    const std::string good = read_file(place.manifest());
    const std::string name = "shard-00001-model-00001";
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {name, "../../../../tmp/x"},
             {name, "/etc/passwd"},
             {name, ".hidden"},
             {name, "a\\u0000b"},
             {"\"shape\":[40,30]", "\"shape\":[4611686018427387904,30]"},
             {"\"shape\":[40,30]", "\"shape\":[9223372036854775808,30]"},
             {"\"shape\":[40,30]", "\"shape\":[-40,-30]"},
             {"\"shape\":[40,30]", "\"shape\":[41,30]"},
             {"\"bytes\":", "\"bytes\":9223372036854775807,\"x\":"},
             {"\"name\":\"ids\"", "\"name\":\"h.0.w\""},
             {"\"step\":5", "\"step\":-5"},
             {"\"world_size\":2", "\"world_size\":1"},
             {"\"tensors\":[", "\"tensors\":" + std::string(100'000, '[')},
             {"\"strategy\"", "\"step\""}}) {
        CAPTURE(to.substr(0, 60));
        write(place.manifest(), forged(good, from, to));
        require_refused(place);
    }
    write(place.manifest(), forged(good, "\"strategy\"", "\"strategy\""));
    CHECK(code_of(request_of(CheckpointAction::verify, {place.checkpoint()})) ==
          exit_code::kSuccess);
}

TEST_CASE("a manifest that is cut anywhere, or not text at all, is refused") {
    Workplace place;
    const std::string good = read_file(place.manifest());
    for (std::size_t length = 0; length < good.size(); length += 37) {
        write(place.manifest(), good.substr(0, length));
        REQUIRE(code_of(request_of(CheckpointAction::show, {place.checkpoint()})) == kCorrupt);
    }
    write(place.manifest(), std::string(100'000, '\0'));
    require_refused(place);
}

TEST_CASE("verify finds any flipped bit, and says which file") {
    Workplace place;
    std::mt19937 random(4);
    for (int round = 0; round < 60; ++round) {
        const auto shards = place.shards();
        const fs::path& shard = shards[random() % shards.size()];
        const std::string good = read_file(shard);
        std::string bad = good;
        char& byte = bad[random() % bad.size()];
        byte = static_cast<char>(byte ^ 1 << random() % 8);
        write(shard, bad);
        const auto outcome =
            run_checkpoint_command(request_of(CheckpointAction::verify, {place.checkpoint()}));
        REQUIRE(outcome.exit_code == exit_code::kFindings);
        REQUIRE(outcome.text.find(shard.filename()) != std::string::npos);
        write(shard, good);
    }
    CHECK(code_of(request_of(CheckpointAction::verify, {place.checkpoint()})) ==
          exit_code::kSuccess);
}

TEST_CASE("a shard that is cut, grown, missing or something else is found") {
    Workplace place;
    const fs::path shard = place.shards()[0];
    const std::string good = read_file(shard);
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{7}, std::size_t{4096}, good.size() - 1}) {
        write(shard, good.substr(0, length));
        require_refused(place);
    }
    write(shard, good + "x");
    require_refused(place);
    fs::remove(shard);
    CHECK(code_of(request_of(CheckpointAction::verify, {place.checkpoint()})) ==
          exit_code::kFindings);
    fs::create_directory(shard);
    CHECK(code_of(request_of(CheckpointAction::verify, {place.checkpoint()})) ==
          exit_code::kFindings);
}

TEST_CASE(
    "a header that says something else than the manifest is found though all digests are right") {
    Workplace place;
    const fs::path shard = place.shard_with("ids");
    std::string content = read_file(shard);
    content.replace(content.find("\"ids\""), 5, "\"idx\"");
    write(shard, content);
    Manifest manifest = Manifest::parse(read_file(place.manifest()));
    for (auto& file : manifest.files) {
        if (file.name != shard.filename())
            continue;
        file.block_digests = {hash128(content.data(), content.size())};
        file.digest = hash128_of(file.block_digests);
    }
    write(place.manifest(), manifest.to_text());
    const auto outcome =
        run_checkpoint_command(request_of(CheckpointAction::verify, {place.checkpoint()}));
    CHECK(outcome.exit_code == exit_code::kFindings);
    CHECK(outcome.text.find("its header does not place tensor ids as the manifest does") !=
          std::string::npos);
}

TEST_CASE("prune never deletes the last complete checkpoint, nor what is newer and not complete") {
    Workplace place;
    fs::create_directory(place.runs() / "step-00000009");
    fs::create_directory(place.runs() / "step-00000001");
    CheckpointRequest request = request_of(CheckpointAction::prune, {place.runs()});
    request.keep = 1;
    run_checkpoint_command(request);
    CHECK(fs::exists(place.checkpoint()));
    CHECK(fs::exists(place.runs() / "step-00000009"));
    CHECK_FALSE(fs::exists(place.runs() / "step-00000001"));
}

TEST_CASE("a foreign safetensors file is a checkpoint or refused, whatever was done to it") {
    Workplace place;
    const fs::path file = place.out() / "m.safetensors";
    run_checkpoint_command(
        request_of(CheckpointAction::export_tensors, {place.checkpoint(), file}));
    const std::string good = read_file(file);
    std::mt19937 random(6);
    int refused = 0;
    for (int round = 0; round < 150; ++round) {
        std::string bad = good;
        if (round % 3 == 0)
            bad.resize(random() % bad.size());
        if (round % 3 != 0)
            bad[random() % 300] = static_cast<char>(random());
        write(file, bad);
        const fs::path made = place.out() / ("made" + std::to_string(round));
        const int code = code_of(request_of(CheckpointAction::convert, {file, made}));
        if (code != exit_code::kSuccess) {
            ++refused;
        } else {
            REQUIRE(code_of(request_of(CheckpointAction::verify, {made})) == exit_code::kSuccess);
        }
    }
    CHECK(refused > 75);
}

TEST_CASE("what PyTorch's optimizers keep is not counted as parameters, nor exported with them") {
    // As DCP names a model with an optimizer by name, one by number, and its groups.
    struct Tensor {
        const char* name;
        TensorRole role;
    };
    const std::vector<Tensor> tensors = {
        {"model.h.0.w", TensorRole::parameter},
        {"model.h.0.sum", TensorRole::parameter},
        {"model.state.0.weight", TensorRole::parameter},
        {"model.optim.w", TensorRole::parameter},
        {"optim.state.h.0.w.exp_avg", TensorRole::optimizer},
        {"optim.state.h.0.w.step", TensorRole::optimizer},
        {"app.optimizer.state.0.whatever", TensorRole::optimizer},
        {"optim.param_groups.h.0.w.lr", TensorRole::optimizer},
        {"state.h.0.w.max_exp_avg_sq", TensorRole::optimizer},
        {"muon.state.h.0.w.buffer_of_its_own", TensorRole::optimizer},
        {"muon.state.not.there.buffer_of_its_own", TensorRole::parameter},
        {"opaque.rank.0", TensorRole::opaque}};
    Manifest manifest;
    for (const Tensor& tensor : tensors)
        manifest.tensors.push_back({tensor.name, f32, {4}, {}});
    const TensorIndex index(manifest);
    for (std::size_t i = 0; i < tensors.size(); ++i)
        CHECK_MESSAGE(role_of(index, manifest.tensors[i]) == tensors[i].role,
                      std::string(tensors[i].name));

    Workplace place;
    Manifest described;
    described.step = 1;
    described.tensors = {{"model.w", f32, {40, 30}, {}},
                         {"optim.state.w.exp_avg", f32, {40, 30}, {}},
                         {"optim.state.w.step", f32, {}, {}}};
    write_checkpoint(*make_posix_storage(), place.out(), described, {1, {}},
                     [](const fsdp::State&) {});
    const fs::path file = place.out() / "all.safetensors";
    run_checkpoint_command(
        request_of(CheckpointAction::export_tensors, {place.out() / "step-00000001", file}));
    const auto made = run_checkpoint_command(
        request_of(CheckpointAction::convert, {file, place.runs() / "made"}));
    CHECK(made.text.find("3 tensors, 9.6 kB, are now ") != std::string::npos);
    CHECK(made.text.find("\n  parameters 1 tensors, 1.2k elements, 4.8 kB\n"
                         "  optimizer  2 tensors, 1.2k elements, 4.8 kB\n") != std::string::npos);
}

TEST_CASE("progress is one line, as wide as the terminal at most") {
    using std::chrono::milliseconds;
    const std::string line =
        byte_progress_line("verifying", 500'000'000, 1'000'000'000, milliseconds(1000), 200);
    CHECK(line ==
          "verifying ━━━━━━━━━━━━━━━───────────────  50% of 1.0 GB · 500.0 MB/s · 1.0 s left");
    CHECK(byte_progress_line("verifying", 0, 0, milliseconds(0), 200).find("100% of 0 B") !=
          std::string::npos);
    for (int columns = 1; columns < 90; ++columns)
        REQUIRE(display_width(byte_progress_line("verifying", 1, 3'000'000, milliseconds(500),
                                                 columns)) <= columns);
}

}  // namespace checkpoint_tools_test
