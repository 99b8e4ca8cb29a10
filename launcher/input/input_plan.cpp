#include "input/input_plan.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace autolaunch::launcher {

namespace {

bool is_dev_null(const struct stat& status) {
    constexpr unsigned kMemoryDevices = 1, kNull = 3;
    return S_ISCHR(status.st_mode) && major(status.st_rdev) == kMemoryDevices &&
           minor(status.st_rdev) == kNull;
}

bool wants_input(const InputSpec& wish, int rank) {
    return wish.to == InputSpec::To::all || (wish.to == InputSpec::To::rank && wish.rank == rank);
}

// A terminal is somebody's who types there: a program that happens to read must not take it.
bool has_input(const InputSituation& situation) {
    return situation.kind != InputKind::nothing &&
           (situation.kind != InputKind::terminal || situation.wish.chosen);
}

}  // namespace

InputKind kind_of_input(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || is_dev_null(status))
        return InputKind::nothing;
    if (::isatty(fd) != 0)
        return InputKind::terminal;
    const bool has_a_position = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
    return has_a_position && ::lseek(fd, 0, SEEK_CUR) >= 0 ? InputKind::file : InputKind::stream;
}

bool can_pile_up(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

InputWay way_of_input(const InputSituation& situation, int rank) {
    if (!wants_input(situation.wish, rank))
        return InputWay::nothing;
    if (!situation.on_head)
        return InputWay::pipe;
    if (!has_input(situation))
        return InputWay::nothing;
    const bool is_only_one = situation.wish.to == InputSpec::To::rank || situation.world_size == 1;
    if (situation.kind == InputKind::file)
        return is_only_one ? InputWay::descriptor : InputWay::own_file;
    if (situation.kind == InputKind::terminal)
        return InputWay::descriptor;
    // What is to be given again must pass through our hands.
    return is_only_one && !situation.can_restart ? InputWay::descriptor : InputWay::pipe;
}

std::vector<int> nodes_fed(const InputSpec& wish, const Roster& roster) {
    std::vector<int> nodes;
    for (int node = 1; node < static_cast<int>(roster.nodes.size()); ++node) {
        const int first = roster.first_rank(node);
        const int end = first + roster.nodes[static_cast<std::size_t>(node)].ranks;
        for (int rank = first; rank < end; ++rank)
            if (wants_input(wish, rank)) {
                nodes.push_back(node);
                break;
            }
    }
    return nodes;
}

InputObjection object_to_input(const InputSituation& situation) {
    const InputSpec& wish = situation.wish;
    if (wish.to != InputSpec::To::all || !situation.on_head ||
        situation.kind != InputKind::terminal || situation.world_size == 1)
        return {};
    return {"stdin is a terminal, which cannot go to all ranks",
            "name the one that is to have it, such as --stdin 0, or give a file: < FILE"};
}

}  // namespace autolaunch::launcher
