#include "top/terminal.hpp"

#include <autolaunch/error.hpp>

#include <ncursesw/curses.h>
#include <ncursesw/term.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#undef lines  // term.h's names of capabilities
#undef columns

namespace autolaunch::launcher {

namespace {

constexpr int kEscapeDelayMs = 100;  // within which the bytes of an arrow key come, also over ssh
constexpr int kMostReadsOfNothing = 3;
constexpr short kRed = 1, kYellow = 2, kGreen = 3;

volatile std::sig_atomic_t stop_wanted = 0;

extern "C" void want_stop(int) { stop_wanted = 1; }

// ncurses goes by the C library's locale; one that is named and not installed is C.
void choose_locale(Charset charset) {
    if (charset == Charset::ascii) {
        std::setlocale(LC_CTYPE, "C");
        return;
    }
    for (const char* name : {"", "C.UTF-8", "C.utf8"})
        if (std::setlocale(LC_CTYPE, name) != nullptr && MB_CUR_MAX > 1)
            return;
}

TopKey key_of(int code) {
    switch (code) {
        case 'q':
        case 'Q':
        case KEY_F(10):
            return TopKey::quit;
        case KEY_UP:
        case 'k':
            return TopKey::up;
        case KEY_DOWN:
        case 'j':
            return TopKey::down;
        case KEY_PPAGE:
            return TopKey::page_up;
        case KEY_NPAGE:
            return TopKey::page_down;
        case 'g':
            return TopKey::first;
        case 'G':
            return TopKey::last;
        case KEY_LEFT:
            return TopKey::left;
        case KEY_RIGHT:
            return TopKey::right;
        case KEY_HOME:
            return TopKey::home;
        case KEY_END:
            return TopKey::end;
        case ' ':
            return TopKey::space;
        case 's':
            return TopKey::order;
        case 'n':
            return TopKey::by_node;
        case 'o':
            return TopKey::stream;
        case 'l':
            return TopKey::log;
        case 'h':
        case '?':
        case KEY_F(1):
            return TopKey::help;
        case '+':
        case '=':
            return TopKey::faster;
        case '-':
            return TopKey::slower;
        default:
            return TopKey::other;
    }
}

attr_t attributes_of(Ink ink, bool colours) {
    switch (ink) {
        case Ink::bold:
            return A_BOLD;
        case Ink::dim:
            return colours ? A_DIM : A_NORMAL;
        case Ink::red:
            return colours ? COLOR_PAIR(kRed) | A_BOLD : A_BOLD;
        case Ink::yellow:
            return colours ? COLOR_PAIR(kYellow) : A_NORMAL;
        case Ink::green:
            return colours ? COLOR_PAIR(kGreen) : A_NORMAL;
        case Ink::reversed:
            return A_REVERSE;
        case Ink::plain:
            break;
    }
    return A_NORMAL;
}

}  // namespace

/// Set before ncurses looks, which leaves those alone that somebody has set.
struct Terminal::Handlers {
    static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
    std::array<struct sigaction, kSignals.size()> before{};

    Handlers() {
        stop_wanted = 0;
        struct sigaction action {};
        action.sa_handler = want_stop;
        for (std::size_t at = 0; at < kSignals.size(); ++at)
            ::sigaction(kSignals[at], &action, &before[at]);
    }
    ~Handlers() {
        for (std::size_t at = 0; at < kSignals.size(); ++at)
            ::sigaction(kSignals[at], &before[at], nullptr);
    }
    Handlers(const Handlers&) = delete;
    Handlers& operator=(const Handlers&) = delete;
};

std::string no_screen_here() {
    if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
        return ::isatty(STDOUT_FILENO) == 0 ? "stdout is no terminal" : "stdin is no terminal";
    const char* const name = std::getenv("TERM");
    const std::string term = name != nullptr ? name : "";
    int found = 0;
    if (term.empty() || ::setupterm(nullptr, STDOUT_FILENO, &found) != OK)
        return term.empty() ? "TERM is not set" : "no terminal \"" + term + "\" is known here";
    const char* const cup = ::tigetstr(const_cast<char*>("cup"));
    const bool places = cup != nullptr && cup != reinterpret_cast<const char*>(-1);
    ::del_curterm(cur_term);
    return places ? "" : "the terminal \"" + term + "\" cannot place its cursor";
}

Terminal::Terminal(bool colours, Charset charset) {
    if (const std::string why = no_screen_here(); !why.empty())
        throw Error(ErrorCode::unsupported, why);
    handlers_ = std::make_unique<Handlers>();
    choose_locale(charset);
    ::use_env(TRUE);
    ::use_tioctl(TRUE);  // the terminal's size before LINES and COLUMNS
    SCREEN* const made = ::newterm(nullptr, stdout, stdin);
    if (made == nullptr)
        throw Error(ErrorCode::unsupported, "this terminal cannot be set up");
    screen_ = made;
    ::set_term(made);
    ::set_escdelay(kEscapeDelayMs);
    ::cbreak();
    ::noecho();
    ::nonl();
    ::keypad(stdscr, TRUE);
    ::nodelay(stdscr, TRUE);
    ::curs_set(0);
    colours_ = colours && ::has_colors() && ::start_color() == OK;
    if (!colours_)
        return;
    const short ground = ::use_default_colors() == OK ? -1 : COLOR_BLACK;
    ::init_pair(kRed, COLOR_RED, ground);
    ::init_pair(kYellow, COLOR_YELLOW, ground);
    ::init_pair(kGreen, COLOR_GREEN, ground);
}

Terminal::~Terminal() {
    if (screen_ == nullptr)
        return;
    ::endwin();
    ::delscreen(static_cast<SCREEN*>(screen_));
}

int Terminal::rows() const { return getmaxy(stdscr); }
int Terminal::columns() const { return getmaxx(stdscr); }

void Terminal::show(const CellGrid& grid) {
    ::werase(stdscr);
    for (int row = 0; row < grid.rows(); ++row)
        for (int column = 0; column < grid.columns();) {
            const int first = column;
            const Ink ink = grid.at(row, column).ink;
            std::string run;
            for (; column < grid.columns() && grid.at(row, column).ink == ink; ++column)
                run += grid.at(row, column).text;
            ::wattrset(stdscr, static_cast<int>(attributes_of(ink, colours_)));
            mvwaddnstr(stdscr, row, first, run.c_str(), static_cast<int>(run.size()));
        }
    ::wattrset(stdscr, A_NORMAL);
    ::wrefresh(stdscr);
}

Terminal::Input Terminal::wait(std::chrono::milliseconds most) {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<long long>(0, most.count())));
    if (stop_wanted != 0)
        return {.key = TopKey::quit};
    if (ready > 0 && (waiting.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        return {.key = TopKey::quit};  // nobody is there any more
    const int code = ::wgetch(stdscr);
    if (code == KEY_RESIZE)
        return {.resized = true};
    // The end of what comes in is ready for ever.
    reads_of_nothing_ = code == ERR && ready > 0 ? reads_of_nothing_ + 1 : 0;
    if (reads_of_nothing_ >= kMostReadsOfNothing)
        return {.key = TopKey::quit};
    return {.key = code == ERR ? TopKey::none : key_of(code)};
}

}  // namespace autolaunch::launcher
