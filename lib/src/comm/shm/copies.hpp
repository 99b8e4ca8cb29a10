#pragma once
// The collectives that only move bytes, through the slots.
#include "comm/shm/pieces.hpp"

namespace autolaunch::shm {

void broadcast(Pieces& pieces, const Collective& collective);
void all_gather(Pieces& pieces, const Collective& collective);
void gather(Pieces& pieces, const Collective& collective);
void scatter(Pieces& pieces, const Collective& collective);
/// Throws Error{mismatch} when what one rank sends is not what the other expects.
void all_to_all(Pieces& pieces, const Collective& collective);
void barrier(Pieces& pieces, const Collective& collective);

/// Slots that hold a block for every rank: how many bytes of each a piece takes, a multiple of 64.
std::size_t region_bytes(const Pieces& pieces) noexcept;
/// Where rank `to`'s region begins in a slot; before it is its header.
std::byte* region(const Pieces& pieces, std::byte* slot, int to) noexcept;
/// Copies this rank's part of the call's piece `step`: of the block of every other rank, into its
/// region.
void fill_regions(Pieces& pieces, const Collective& collective, std::size_t step);

/// The first piece of an all_to_all, in this rank's entry, which is open: writes how long its
/// longest block is, and when all are short, the blocks themselves. Says whether.
bool pack_blocks(Pieces& pieces, const Collective& collective);
/// Waits for the others' entries and takes their blocks there; false, and nothing is done, when not
/// all have packed.
bool exchange_packed(Pieces& pieces, const Collective& collective);

}  // namespace autolaunch::shm
