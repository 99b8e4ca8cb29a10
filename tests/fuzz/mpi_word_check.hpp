#pragma once
#include "pmi/elf_file.hpp"
#include "pmi/elf_symbols.hpp"
#include "pmi/pmi1_port.hpp"
#include "pmi/pmi1_table.hpp"
#include "pmi/pmix_relay.hpp"
#include "pmi/pmixd/pmix_claim.hpp"
#include "pmi/pmixd_message.hpp"
#include "require.hpp"
#include "tasks/stand_in_message.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace mpi_word {

using fuzz::require;

/// PMI-1: two ranks say the lines in turns, and the barrier of one node is over once both came.
inline std::size_t check_pmi1(std::string_view bytes) {
    Pmi1Table table(2, 2, "kvs_4711", "(vector,(0,1,2))");
    std::size_t replies = 0;
    int rank = 0;
    const auto take = [&](const Pmi1Table::Outcome& outcome) {
        for (const auto& [to, line] : outcome.replies)
            require(to >= 0 && to < 2 && line.ends_with('\n') &&
                    line.size() <= Pmi1Table::kLineLimit);
        replies += outcome.replies.size();
        return outcome.all_in_barrier;
    };
    for (std::string_view rest = bytes; !rest.empty(); rank = 1 - rank) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() == rest.size() ? line.size() : line.size() + 1);
        if (take(table.on_line(rank, line.substr(0, Pmi1Table::kLineLimit))))
            require(table.on_barrier_over({{0, table.take_puts()}}).broken.empty());
    }
    const std::string blob(bytes);
    take(table.on_barrier_over({{0, table.take_puts()}, {1, blob}}));
    parse_initack(bytes);
    return replies;
}

/// Frames of autolaunch-pmixd and of stand-ins, and relays between nodes.
inline std::size_t check_frames(std::string_view bytes) {
    std::size_t found = 0;
    try {
        pmixd::MessageReader reader;
        reader.feed(bytes);
        while (const auto message = reader.next()) {
            pmixd::MessageReader again;
            again.feed(pmixd::encode(*message));
            const auto same = again.next();
            require(same && pmixd::encode(*same) == pmixd::encode(*message));
            ++found;
        }
    } catch (const Error& error) {
        require(error.code() == ErrorCode::corrupt);
    }
    std::string rest(bytes);
    try {
        while (const auto message = stand_in::take_message(rest)) {
            std::string frame = stand_in::encode(*message);
            const auto same = stand_in::take_message(frame);
            require(same && frame.empty() && stand_in::encode(*same) == stand_in::encode(*message));
            ++found;
        }
    } catch (const Error& error) {
        require(error.code() == ErrorCode::corrupt);
    }
    if (const auto relay = decode_relay(bytes)) {
        const auto same = decode_relay(encode_relay(*relay));
        require(same && encode_relay(*same) == encode_relay(*relay));
        ++found;
    }
    if (const auto claim = pmixd::parse_pmix_claim(bytes)) {
        require(claim->name_space.size() <= bytes.size());
        ++found;
    }
    pmixd::pmix_message_bytes(bytes);
    return found;
}

/// A program's file: what is read of it is a part of it, and there are not many reads.
inline bool check_elf(std::string_view bytes) {
    std::size_t reads = 0;
    const auto read_at = [&](std::uint64_t offset, std::size_t size) {
        require(++reads <= 100'000);
        return offset >= bytes.size()
                   ? std::string()
                   : std::string(bytes.substr(static_cast<std::size_t>(offset), size));
    };
    const auto file = parse_elf(read_at);
    if (file)
        for (const std::string& name : file->needed)
            require(name.size() <= bytes.size());
    constexpr std::array<std::string_view, 2> kNames = {"MPIR_being_debugged", "x"};
    for (const ElfVariable& variable : find_elf_variables(read_at, kNames))
        require(variable.name < kNames.size());
    return file.has_value();
}

}  // namespace mpi_word

/// What ranks, autolaunch-pmixd, stand-ins and agents of other nodes say for MPI, and the programs
/// that may need it, as anything: read, or refused as their words are. Aborts where that is not so.
/// How much was understood.
inline std::size_t check_mpi_bytes(std::string_view bytes) {
    return mpi_word::check_pmi1(bytes) + mpi_word::check_frames(bytes) +
           (mpi_word::check_elf(bytes) ? 1 : 0);
}

}  // namespace autolaunch::launcher
