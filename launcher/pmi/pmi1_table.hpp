#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// PMI-1 of one node's ranks, decided line by line: what each rank has said and published, who
/// waits in the barrier. Pure: lines in, replies out. docs/pmi-protocol.md has the lines.
class Pmi1Table {
public:
    static constexpr std::size_t kLineLimit = 4096;  ///< MPICH's own buffers are smaller
    static constexpr std::size_t kNameLimit = 256, kKeyLimit = 128, kValueLimit = 1024;
    static constexpr std::size_t kBytesLimit =
        std::size_t{32} << 20;  ///< of what this node's ranks put between two barriers

    /// What follows from a line.
    struct Outcome {
        std::vector<std::pair<int, std::string>>
            replies;                    ///< local rank and line, newline included
        bool all_in_barrier = false;    ///< this node's ranks: now fence with take_puts()
        std::optional<int> abort_code;  ///< the rank has called MPI_Abort
        std::string broken;             ///< what the rank did wrong; not empty: drop its link
        std::string refused;            ///< what it asked for in vain, for a person
    };

    Pmi1Table(int local_size, int world_size, std::string kvs_name, std::string process_mapping);

    /// Another process speaks for the rank from now on.
    void begin(int local_rank);
    Outcome on_line(int local_rank, std::string_view line);
    /// What this node's ranks have put since the last barrier; for the other nodes.
    std::string take_puts();
    /// The barrier is over, with what the nodes have put, this one included. `broken` when a blob
    /// is none of ours.
    Outcome on_barrier_over(const std::vector<std::pair<int, std::string>>& blobs);

    bool has_initialised(int local_rank) const { return ranks_[index(local_rank)].initialised; }
    bool has_finalised(int local_rank) const { return ranks_[index(local_rank)].finalised; }
    bool anyone_initialised() const;
    bool everyone_finalised() const;

private:
    struct Rank {
        bool initialised = false, finalised = false, in_barrier = false;
        bool in_long_command = false;  ///< between "mcmd=" and "endcmd"
    };

    static std::size_t index(int local_rank) { return static_cast<std::size_t>(local_rank); }
    Outcome put(int local_rank, std::string_view line);
    Outcome get(int local_rank, std::string_view line) const;
    Outcome enter_barrier(int local_rank);

    std::vector<Rank> ranks_;
    int world_size_;
    std::string kvs_name_;
    std::map<std::string, std::string, std::less<>> table_;
    std::map<std::string, std::string, std::less<>> puts_;
    std::size_t put_bytes_ = 0;
    int waiting_ = 0;
};

}  // namespace autolaunch::launcher
