#pragma once
#include "top/cell_grid.hpp"
#include "top/job_view.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class TopOrder { rank, step, step_time, wait, gpu, memory };
inline constexpr int kTopOrders = 6;
/// "rank", "slowest step", …
const char* name_of(TopOrder order);

enum class TopColumn { rank, node, state, step, time, wait, gpu, gpu_memory, heat, hca, rss };
inline constexpr std::size_t kTopColumns = 11;

struct TopColumnShape {
    const char* title;
    int width;
    bool right;  ///< aligned
};
inline constexpr std::array<TopColumnShape, kTopColumns> kTopShapes = {{{"RANK", 5, true},
                                                                        {"NODE", 8, false},
                                                                        {"STATE", 8, false},
                                                                        {"STEP", 8, true},
                                                                        {"TIME", 7, true},
                                                                        {"WAIT", 5, true},
                                                                        {"GPU", 4, true},
                                                                        {"GMEM", 5, true},
                                                                        {"TEMP", 4, true},
                                                                        {"HCA/s", 7, true},
                                                                        {"RSS", 6, true}}};
/// Columns of a line that has all of them, each behind a blank, with the mark in front.
inline constexpr int kTopWidth = 1 + 67 + static_cast<int>(kTopColumns);

/// A line of the table: a rank, or a node with all of its ranks.
struct TopRow {
    int rank = 0;  ///< the lowest
    int ranks = 1;
    std::array<std::string, kTopColumns> cells = {};
    std::string note = {};
    bool straggler = false;
    Ink ink = Ink::plain;
};

/// "?" stands for what is not known, "-" for what a rank has not. Pure.
std::vector<TopRow> rows_of(const JobView& view, TopOrder order, bool by_node);

/// "31 running, 1 stuck". Pure.
std::string count_ranks(const JobView& view);
/// "312 ms", "0.31 s", "12 s", "3 min": seven columns at most. Pure.
std::string short_time(double seconds);
/// "812", "12.3k", "1.2G": six columns at most. Pure.
std::string short_bytes(double bytes);

/// `autolaunch top --once`: a table for people. Pure.
std::string top_table(const JobView& view);
/// `autolaunch top --once --json`; docs/guides/top.md has the keys. Pure.
std::string top_json(const JobView& view);

/// Who and where the job is: "gpt · job 4711 · running · generation 1 · 4 nodes x 32 ranks". Pure.
std::string headline_of(const JobView& view);
/// How far: "step 1240/5000  loss 2.713 · 412k tok/s · …"; why that is not known. Pure.
std::string progress_of(const JobView& view, int columns);

}  // namespace autolaunch::launcher
