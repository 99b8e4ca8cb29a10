#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

/// "15s", "500ms", "2m", "1h", "1d", "1h30m", "1.5s"; a plain number is seconds. Nothing for other
/// text, negative values and more than ten years.
std::optional<std::chrono::milliseconds> duration_from(std::string_view text);

/// "80GB" (powers of 1000), "80GiB" (powers of 1024), "80G" (powers of 1024, as Slurm reads it),
/// plain bytes. Nothing for other text, negative values and what 63 bits cannot hold.
std::optional<std::int64_t> bytes_from(std::string_view text);

/// "124M", "7B", "1.5T", "350k", "6_738_415_616": K, M, B (or G) and T are powers of 1000. Nothing
/// for other text, for less than 1 and for what 63 bits cannot hold.
std::optional<std::int64_t> count_from(std::string_view text);

/// Slurm's --time: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S, UNLIMITED or INFINITE.
bool is_slurm_time_limit(std::string_view text);

/// An entry of resource_management.binding as a list: "0-7,64-71", "numa:1", "core:0-3". Only its
/// form is judged.
bool is_binding_entry(std::string_view text);

}  // namespace autolaunch::launcher
