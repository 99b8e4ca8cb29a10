#pragma once
#include "report/parse_event.hpp"
#include "report/run_files.hpp"
#include "require.hpp"
#include "run_files_text.hpp"
#include "top/job_model.hpp"
#include "top/step_line.hpp"
#include "top/top_keys.hpp"
#include "top/top_rows.hpp"
#include "top/top_screen.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

namespace run_view {

using fuzz::require;

/// What top shows of a view can only be characters, in as many places as the screen has.
inline void check_screen(const JobView& view, bool by_node) {
    const auto rows = rows_of(view, TopOrder::step_time, by_node);
    TopState state;
    state.by_node = by_node;
    state = settled(state, rows, 5);
    const CellGrid grid = draw_top({.view = view, .state = state, .rows = rows}, 24, 80,
                                   by_node ? Charset::ascii : Charset::utf8);
    require(grid.rows() == 24 && grid.columns() == 80);
    for (const char c : grid.text())
        require(c == '\n' || (static_cast<unsigned char>(c) >= ' ' && c != 0x7f));
}

inline void check_view(const JobView& view, bool by_node) {
    require(std::is_sorted(view.ranks.begin(), view.ranks.end(),
                           [](const RankView& a, const RankView& b) { return a.rank < b.rank; }));
    require(nlohmann::json::accept(top_json(view)));
    top_table(view);
    check_screen(view, by_node);
}

/// A step that is read without a parser is the one that the parser reads.
inline void check_step(std::string_view line) {
    const auto quick = parse_step_line(line);
    if (!quick)
        return;
    const auto whole = parse_event(nlohmann::json::parse(line));
    require(whole && whole->at == quick->at && whole->generation == quick->generation);
    const auto& one = std::get<StepReported>(quick->what);
    const auto& other = std::get<StepReported>(whole->what);
    require(one.rank == other.rank && one.step == other.step &&
            one.total_steps == other.total_steps && one.tokens == other.tokens &&
            one.loss == other.loss && one.seconds == other.seconds &&
            rank_of_step_line(line) == one.rank);
}

}  // namespace run_view

/// Files of a run that top follows, whoever wrote them: a job that can be shown at any moment.
/// Aborts where that is not so. How many ranks it has.
inline std::size_t check_view_bytes(std::string_view bytes) {
    const RunFilesText files(bytes);
    JobModel model("runs/1", {"hunter2-hunter2"});
    files.each('p', [&](std::string_view text) { model.take_plan(JobModel::kHead, text); });
    files.each('q', [&](std::string_view text) { model.take_plan(1, text); });
    for (const auto& [letter, text] : files.lines()) {
        if (letter == 'e' || letter == 'n')
            model.take_event(letter == 'e' ? JobModel::kHead : 1, text);
        if (letter == 's')
            model.take_sample(text);
        run_view::check_step(text);
    }
    fuzz::require(without_older_steps(bytes).size() <= bytes.size());
    is_run_file(bytes);
    const auto last = model.last_heard().value_or(ViewTime(std::chrono::seconds(1'700'000'000)));
    const JobView view = model.view(last);
    // Each kind of screen of one moment: a screen is most of the work.
    run_view::check_view(view, false);
    run_view::check_view(model.view(ViewTime(std::chrono::seconds(1'700'000'000))), true);
    return view.ranks.size();
}

}  // namespace autolaunch::launcher
