#include "checkpoint/format/element_cast.hpp"
#include "checkpoints/byte_progress.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "checkpoints/tensor_stream.hpp"
#include "exit_codes/exit_codes.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

/// How one tensor differs.
struct TensorDifference {
    std::string name;
    std::string what;  // "only in A", "another shape", "elements"
    std::int64_t elements = 0;
    std::int64_t differing = 0;
    double largest = 0;  // |a - b| of floating-point tensors
};

std::vector<float> as_floats(DataType type, std::span<const std::byte> content) {
    std::vector<float> values(content.size() / size_of(type));
    cast_elements(type, content.data(), DataType::f32, reinterpret_cast<std::byte*>(values.data()),
                  values.size());
    return values;
}

TensorDifference compare(const Manifest::Tensor& tensor, std::span<const std::byte> a,
                         std::span<const std::byte> b) {
    TensorDifference difference{tensor.name, {}, tensor.element_count(), 0, 0};
    if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0)
        return difference;
    difference.what = "elements";
    const std::size_t element_bytes = size_of(tensor.type);
    for (std::size_t at = 0; at < a.size(); at += element_bytes)
        if (std::memcmp(a.data() + at, b.data() + at, element_bytes) != 0)
            ++difference.differing;
    if (!can_cast(tensor.type, DataType::f32))
        return difference;
    const auto left = as_floats(tensor.type, a), right = as_floats(tensor.type, b);
    for (std::size_t i = 0; i < left.size(); ++i) {
        const double distance =
            std::abs(static_cast<double>(left[i]) - static_cast<double>(right[i]));
        // A NaN on one side is the largest difference there is.
        if (!(distance <= difference.largest))
            difference.largest = std::isnan(distance) ? INFINITY : distance;
    }
    return difference;
}

std::string type_and_shape(const Manifest::Tensor& tensor) {
    return std::string(safetensors::name_of(tensor.type)) + " " + shape_text(tensor.shape);
}

/// The same tensors of two checkpoints, each with its own place.
struct Pairs {
    std::vector<WantedTensor> first, second;
};

/// Those that can be compared; the others go to `differences`.
Pairs comparable(const Manifest& a, const Manifest& b, const std::vector<std::string>& only,
                 std::vector<TensorDifference>& differences) {
    const TensorIndex in_a(a), in_b(b);
    Pairs pairs;
    for (const auto& tensor : a.tensors) {
        if (!is_selected(tensor.name, only))
            continue;
        const Manifest::Tensor* other = in_b.find(tensor.name);
        if (!other) {
            differences.push_back({tensor.name, "only in the first", tensor.element_count()});
        } else if (other->shape != tensor.shape || other->type != tensor.type) {
            differences.push_back(
                {tensor.name, type_and_shape(tensor) + ", then " + type_and_shape(*other)});
        } else {
            pairs.first.push_back({&tensor, tensor.type});
            pairs.second.push_back({other, tensor.type});
        }
    }
    for (const auto& tensor : b.tensors)
        if (is_selected(tensor.name, only) && !in_a.find(tensor.name))
            differences.push_back({tensor.name, "only in the second", tensor.element_count()});
    return pairs;
}

void compare_content(const OpenCheckpoint& a, const OpenCheckpoint& b, const Pairs& pairs,
                     std::vector<TensorDifference>& differences) {
    std::uint64_t bytes = 0;
    for (const WantedTensor& tensor : pairs.first)
        bytes += tensor.bytes();
    ByteProgress progress("comparing", bytes);
    stream_both(a, pairs.first, b, pairs.second,
                [&](const WantedTensor& tensor, std::span<const std::byte> first,
                    std::span<const std::byte> second) {
                    const TensorDifference difference = compare(*tensor.stored, first, second);
                    if (!difference.what.empty())
                        differences.push_back(difference);
                    progress.add(first.size());
                });
}

std::string difference_text(const TensorDifference& difference) {
    if (difference.what != "elements")
        return fmt::format("  {}: {}\n", shown(difference.name), difference.what);
    const std::string largest =
        difference.largest > 0 ? fmt::format(", by {:.3g} at most", difference.largest) : "";
    return fmt::format("  {}: {} of {} elements differ{}\n", shown(difference.name),
                       difference.differing, difference.elements, largest);
}

}  // namespace

CheckpointOutcome diff_checkpoints(const CheckpointRequest& request) {
    const OpenCheckpoint a =
        open_to_read(request.paths.at(0), encryption_of(request), request.vault);
    const OpenCheckpoint b =
        open_to_read(request.paths.at(1), encryption_of(request), request.vault);
    std::vector<TensorDifference> differences;
    const Pairs pairs = comparable(a.manifest, b.manifest, request.only, differences);
    compare_content(a, b, pairs, differences);
    const std::size_t compared = pairs.first.size();
    CheckpointOutcome outcome;
    outcome.passed_over = a.skipped;
    outcome.passed_over.insert(outcome.passed_over.end(), b.skipped.begin(), b.skipped.end());
    outcome.exit_code = differences.empty() ? exit_code::kSuccess : exit_code::kFindings;
    if (request.json) {
        nlohmann::ordered_json json = {{"first", a.path.string()}, {"second", b.path.string()}};
        json["compared"] = compared;
        json["differences"] = nlohmann::ordered_json::array();
        for (const auto& one : differences) {
            nlohmann::ordered_json entry = {{"name", one.name}, {"what", one.what}};
            if (one.what == "elements") {
                entry["elements"] = one.elements;
                entry["differing"] = one.differing;
                if (std::isfinite(one.largest))
                    entry["largest"] = one.largest;
            }
            json["differences"].push_back(std::move(entry));
        }
        outcome.text =
            json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
        return outcome;
    }
    outcome.text = fmt::format("{} tensors compared, {} differ\n", compared, differences.size());
    for (const auto& one : differences)
        outcome.text += difference_text(one);
    return outcome;
}

}  // namespace autolaunch::launcher
