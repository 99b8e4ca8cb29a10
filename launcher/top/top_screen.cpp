#include "top/top_screen.hpp"

#include "report/terminal_text.hpp"
#include "report/units.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr int kHead = 3;              // headline, progress, counts
constexpr int kMostNodeColumns = 24;  // columns of a node's name

constexpr std::array<const char*, 19> kHelp = {{
    "autolaunch top",
    "",
    "up, down, page up, page down   select a rank; g and G: the first and the last",
    "s   sort: rank, step, slowest step, least wait, idlest GPU, memory",
    "n   a line for each node, or for each rank",
    "o   the rank's stderr or stdout        l   show or hide its log",
    "space   hold the screen, or go on      q   quit (the job goes on)",
    "of a run that is over, with --replay:",
    "left, right, home, end   earlier, later, its beginning, its end",
    "space   play or stop                   + -   faster, slower",
    "",
    "TIME   seconds of a step, averaged     WAIT  share of its time in collectives",
    "GPU    share of time it computes       GMEM  share of its memory that is in use",
    "TEMP   degrees Celsius                 HCA/s bytes of its HCA, both ways",
    "RSS    memory of its processes         ?     not known    -   has none",
    "!      the others wait for this rank   WAIT  is measured once a window",
    "A node's line: its slowest step, least wait, hottest GPU, sums of HCA, RSS",
    "",
    "any key goes back",
}};

std::string clock_of(ViewTime at) {
    return fmt::format("{:%H:%M:%S} UTC", std::chrono::floor<std::chrono::seconds>(at));
}

Ink ink_of_state(const JobView& view) {
    if (view.state == "ended")
        return view.exit_code == 0 ? Ink::green : Ink::red;
    if (view.state == "stands still" || !view.doubt.empty())
        return Ink::red;
    return view.state == "running" ? Ink::bold : Ink::yellow;
}

class TopPainter {
public:
    TopPainter(const TopPicture& picture, int rows, int columns, Charset charset)
        : picture_(picture),
          charset_(charset),
          grid_(rows, columns, charset),
          layout_(layout_of(rows, picture.state)) {
        // Wider screens have longer names of nodes, as far as there are such, and notes.
        int longest = kTopShapes[static_cast<std::size_t>(TopColumn::node)].width;
        const int spare = columns - kTopWidth;
        for (const TopRow& row : picture.rows)
            longest = std::max(longest,
                               display_width(plain_words(
                                   row.cells[static_cast<std::size_t>(TopColumn::node)], charset)));
        node_width_ = std::min(
            {longest, kMostNodeColumns,
             kTopShapes[static_cast<std::size_t>(TopColumn::node)].width + std::max(0, spare)});
    }

    CellGrid paint() {
        paint_head();
        paint_news();
        paint_table();
        paint_log();
        paint_end();
        return std::move(grid_);
    }
    CellGrid paint_help() {
        for (std::size_t line = 0; line < kHelp.size(); ++line)
            grid_.put(static_cast<int>(line), 1, kHelp[line], line == 0 ? Ink::bold : Ink::plain);
        return std::move(grid_);
    }

private:
    void paint_head() {
        const JobView& view = picture_.view;
        const std::string clock = clock_of(view.at);
        const int room = grid_.columns() - display_width(clock) - 2;
        grid_.put(0, 0, headline_of(view), ink_of_state(view), room);
        grid_.put_right(0, grid_.columns(), clock, Ink::dim);
        grid_.put(1, 0, progress_of(view, grid_.columns()));
        std::string counts = count_ranks(view);
        if (view.checkpoint_at)
            counts += " · saved " +
                      format_duration(
                          std::max(view.at - *view.checkpoint_at, std::chrono::milliseconds(1))) +
                      " ago";
        if (picture_.state.order != TopOrder::rank && !picture_.state.by_node)
            counts += std::string(" · sorted by ") + name_of(picture_.state.order);
        if (!view.gaps.empty())
            counts += fmt::format(" · missing: {}", view.gaps.back());
        const bool bad =
            counts.find("stuck") != counts.npos || counts.find("failed") != counts.npos;
        grid_.put(2, 0, view.doubt.empty() ? counts : view.doubt + " · " + counts,
                  bad || !view.doubt.empty() ? Ink::red : Ink::plain);
    }

    void paint_news() {
        const auto& news = picture_.view.news;
        const int shown = std::min(layout_.news, static_cast<int>(news.size()));
        for (int line = 0; line < shown; ++line)
            grid_.put(kHead + line, 0, news[news.size() - static_cast<std::size_t>(shown - line)],
                      Ink::dim);
    }

    int width_of(std::size_t column) const {
        return column == static_cast<std::size_t>(TopColumn::node) ? node_width_
                                                                   : kTopShapes[column].width;
    }

    void paint_line(int at, const std::array<std::string, kTopColumns>& cells,
                    const std::string& note, char mark, Ink ink) {
        grid_.put(at, 0, std::string(1, mark), ink);
        int column = 1;
        for (std::size_t cell = 0; cell < kTopColumns; ++cell) {
            const int width = width_of(cell);
            const std::string words =
                fit_width(plain_words(cells[cell], charset_), width, charset_);
            const int blank = kTopShapes[cell].right ? width - display_width(words) : 0;
            grid_.put(at, column + 1 + blank, words, ink, width - blank);
            column += 1 + width;
        }
        grid_.put(at, column + 2, note, ink);
    }

    void paint_table() {
        const int top = kHead + layout_.news;
        std::array<std::string, kTopColumns> titles;
        for (std::size_t column = 0; column < kTopColumns; ++column)
            titles[column] = kTopShapes[column].title;
        paint_line(top, titles, grid_.columns() > kTopWidth + 12 ? "NOTE" : "", ' ', Ink::reversed);
        grid_.ink_row(top, Ink::reversed);
        const int first = picture_.state.first_row;
        const int count = static_cast<int>(picture_.rows.size());
        for (int line = 0; line < layout_.table && first + line < count; ++line) {
            const TopRow& row = picture_.rows[static_cast<std::size_t>(first + line)];
            paint_line(top + 1 + line, row.cells, row.note, row.straggler ? '!' : ' ', row.ink);
            if (row.rank == picture_.state.rank)
                grid_.ink_row(top + 1 + line, Ink::reversed);
        }
    }

    void paint_log() {
        if (layout_.log == 0)
            return;
        const int top = grid_.rows() - 1 - (picture_.state.replay ? 1 : 0) - layout_.log - 1;
        const TopRow* selected = nullptr;
        for (const TopRow& row : picture_.rows)
            if (row.rank == picture_.state.rank)
                selected = &row;
        std::string title =
            fmt::format("── rank {} {} ", picture_.state.rank, picture_.state.stream);
        if (picture_.state.replay)
            title += "at the end ";
        if (selected != nullptr && !selected->note.empty() && grid_.columns() < kTopWidth + 24)
            title += "── " + selected->note + ' ';
        const int taken = grid_.put(top, 0, title, Ink::dim);
        for (int column = taken; column < grid_.columns(); ++column)
            grid_.put(top, column, "─", Ink::dim);
        const auto& log = picture_.log;
        const int shown = std::min(layout_.log, static_cast<int>(log.size()));
        for (int line = 0; line < shown; ++line)
            grid_.put(top + 1 + line, 0, log[log.size() - static_cast<std::size_t>(shown - line)]);
    }

    void paint_slider(int at) {
        const ReplayState& replay = *picture_.state.replay;
        const std::string words = fmt::format(
            " {} x{}  {} of {} ", replay.plays ? "playing" : "stopped", replay.speed,
            format_duration(std::max(replay.at - replay.first, std::chrono::milliseconds(1))),
            format_duration(std::max(replay.last - replay.first, std::chrono::milliseconds(1))));
        const int room = std::max(1, grid_.columns() - display_width(words));
        const auto span =
            std::max<std::chrono::milliseconds::rep>(1, (replay.last - replay.first).count());
        const auto done =
            static_cast<double>((replay.at - replay.first).count()) / static_cast<double>(span);
        const int mark = std::min(room - 1, static_cast<int>(done * (room - 1) + 0.5));
        for (int column = 0; column < room; ++column)
            grid_.put(at, column,
                      column == mark  ? "|"
                      : column < mark ? "━"
                                      : "─",
                      column == mark ? Ink::bold : Ink::dim);
        grid_.put(at, room, words);
    }

    void paint_end() {
        const TopState& state = picture_.state;
        const int last = grid_.rows() - 1;
        if (state.replay)
            paint_slider(last - 1);
        std::string keys = state.replay ? "q quit  arrows move  space play  +- speed"
                                        : "q quit  arrows select  space hold";
        keys += state.replay ? "  s sort  n nodes  o l log  h help"
                             : "  s sort  n nodes  o stream  l log  h help";
        if (state.paused)
            keys = "held: space goes on   " + keys;
        if (!picture_.message.empty())
            keys = picture_.message + "   " + keys;
        grid_.put(last, 0, keys, state.paused ? Ink::yellow : Ink::dim);
    }

    const TopPicture& picture_;
    const Charset charset_;
    CellGrid grid_;
    const TopLayout layout_;
    int node_width_ = 0;
};

CellGrid too_small(int rows, int columns, Charset charset) {
    CellGrid grid(rows, columns, charset);
    grid.put(
        0, 0,
        fmt::format("needs {} x {}: here {} x {}", kFewestColumns, kFewestRows, columns, rows));
    grid.put(1, 0, "q quits");
    return grid;
}

}  // namespace

TopLayout layout_of(int rows, const TopState& state) {
    TopLayout layout;
    layout.news = rows >= 40 ? 4 : rows >= 30 ? 3 : 1;
    const int left = rows - kHead - layout.news - 1 - 1 - (state.replay ? 1 : 0);
    if (state.log && left >= 6)
        layout.log = std::clamp(rows / 5, 2, 12);
    layout.table = std::max(1, left - (layout.log > 0 ? layout.log + 1 : 0));
    return layout;
}

CellGrid draw_top(const TopPicture& picture, int rows, int columns, Charset charset) {
    if (rows < kFewestRows || columns < kFewestColumns)
        return too_small(rows, columns, charset);
    TopPainter painter(picture, rows, columns, charset);
    return picture.state.help ? painter.paint_help() : painter.paint();
}

}  // namespace autolaunch::launcher
