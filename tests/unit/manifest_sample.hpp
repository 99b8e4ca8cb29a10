#pragma once
#include "base/hash.hpp"

#include <autolaunch/checkpoint/manifest.hpp>

#include <vector>

namespace autolaunch::testing {

/// Has every field that a plain checkpoint's manifest may have.
inline Manifest example() {
    Manifest manifest;
    manifest.step = 1200;
    manifest.world_size = 2;
    manifest.extra = R"({"shard":3})";
    manifest.generation = 3;
    manifest.mesh = {{"replica", 1}, {"shard", 2}};
    manifest.strategy = "hybrid_shard";
    manifest.parent_step = 1100;
    manifest.metric = 2.7182818284590451;
    manifest.library = "0.1.0";
    manifest.saved_unix_ms = 1790000000123;
    const std::vector<Digest128> first = {{0, 1}, {0xfedcba9876543210, 5}}, second = {{7, 0}};
    manifest.files = {
        {"shard-00001-model-00001-of-00001.safetensors", 0, Manifest::kBlockBytes + 5,
         hash128_of(first), first},
        {"shard-00002-model-00001-of-00001.safetensors", 1, 4096 + 40, hash128_of(second), second}};
    manifest.tensors = {{"h.0.w", f32, {4, 5}, {{1, 4096, 10, 10}, {0, 4096, 0, 10}}},
                        {"h.0.s", f64, {}, {{0, 5000, 0, 1}}}};
    return manifest;
}

}  // namespace autolaunch::testing
