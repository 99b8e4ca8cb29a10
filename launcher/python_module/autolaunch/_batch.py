"""A step's global batch on any number of ranks, as autolaunch/session/batch.hpp has it for C++."""
import collections

__all__ = ["BatchShare", "share_batch"]

BatchShare = collections.namedtuple("BatchShare", "first count at_once passes weight notice")
BatchShare.__doc__ = """A rank's samples of the global batch, [first, first + count), `at_once` in each of `passes`
forward and backward passes (the last may have fewer, or none). `weight` is what each sample's gradient counts where
gradients are averaged over ranks. `notice`: why parts or passes are not equal; empty: they are."""


def share_batch(global_batch, micro_batch, rank, world_size):
    """How this rank keeps the global batch in a world of another size: by more passes, or fewer, whose gradients are
    accumulated. micro_batch 0: one pass. ValueError for fewer samples than ranks."""
    if world_size < 1 or not 0 <= rank < world_size or micro_batch < 0:
        raise ValueError(f"no share of a batch: rank {rank} of {world_size}, micro batch {micro_batch}")
    if global_batch < world_size:
        raise ValueError(f"a global batch of {global_batch} leaves some of {world_size} ranks without work")
    smaller, larger = divmod(global_batch, world_size)
    most = smaller + (larger > 0)
    at_once = min(micro_batch, most) or most
    passes = -(-most // at_once)
    notice = ""
    if larger:
        notice = f"ranks from {larger} up have one sample less"
    elif smaller != at_once * passes:
        notice = f"the last of {passes} passes has {smaller - at_once * (passes - 1)} samples, not {at_once}"
    if notice:
        notice = f"a global batch of {global_batch} on {world_size} ranks: {notice}"
    first = rank * smaller + min(rank, larger)
    return BatchShare(first, smaller + (rank < larger), at_once, passes, world_size / global_batch, notice)
