#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// What happens to a simulated job, all of it made of one number.
namespace simulation {

/// splitmix64: a number that looks random, of a seed and a place.
std::uint64_t mix(std::uint64_t seed, std::uint64_t place);

class Dice {
public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() { return mix(state_++, 0x5eed); }
    int below(int limit) { return static_cast<int>(next() % static_cast<std::uint64_t>(limit)); }
    int between(int least, int most) { return least + below(most - least + 1); }
    bool one_in(int times) { return below(times) == 0; }

private:
    std::uint64_t state_;
};

enum class Blow : std::uint8_t {
    kill_agent,     ///< SIGKILL: its kernel tells the others
    power_off,      ///< nobody tells them
    restart,        ///< a fresh agent where none is
    pause_machine,  ///< all of it stands still, also its ranks
    pause_agent,    ///< SIGSTOP; its ranks go on
    pause_all,      ///< the scheduler suspends the job
    cut,            ///< nothing passes between a machine and all others
    cut_one_way,    ///< nothing comes from it
    heal,           ///< all of that
    fail_rank,      ///< an error of the program
    fail_gpu,       ///< the same, of the machine
    hang_rank,      ///< takes no notice of SIGTERM from now on
};

struct BlowAt {
    int at = 0;  ///< ms
    Blow what = Blow::heal;
    int node = 0;  ///< -1: who is head then
    int lasts = 0;
};

struct Schedule {
    std::uint64_t seed = 0;
    int nodes = 3, ranks = 1, fewest = 2, most = 3;
    bool has_witness = false;
    int loss_permille = 0, doubled_permille = 0, slowest = 20;  ///< of the network; ms
    int steps = 20, max_restarts = 2;
    std::vector<BlowAt> blows;
};

Schedule make_schedule(std::uint64_t seed);

/// One line, all that it takes to see it again: also when make_schedule() has changed since.
std::string to_text(const Schedule& schedule);
/// Throws std::invalid_argument.
Schedule schedule_from(const std::string& line);
Schedule with_blows(const Schedule& schedule, const std::vector<std::size_t>& kept);
std::string name_of(Blow blow);

}  // namespace simulation
