"""`run(loop)`: when another rank is lost this one stays, and calls its loop again (docs/recovery.md).

Nothing listens beside the trainer: the agent's word is taken when something is reported or asked,
and when the loop raises.
"""
import gc
import os
import select
import sys
import time
import weakref

from ._rank_session import GenerationChanged, _session

__all__ = ["GenerationChanged", "run"]

_WORD_SECONDS = 10  # for the agent to say that another rank is gone
_NEXT_SECONDS = 3600  # a restart may be put off
_PLAIN_BACKENDS = ("gloo",)  # of which we know that they can be made anew in the same process
# Where a node was lost, the others are other ranks.
_NUMBERS = {
    "RANK": "rank",
    "WORLD_SIZE": "world_size",
    "GROUP_RANK": "node_rank",
    "GROUP_WORLD_SIZE": "node_count",
    "ROLE_RANK": "role_rank",
    "ROLE_WORLD_SIZE": "role_size",
}
# What gloo and PyTorch's store say of a peer that is gone, where errors have no class of their own.
_OF_A_PEER = (
    "gloo",
    "TCPStore",
    "onnection closed by peer",
    "onnection reset by peer",
    "ocket Timeout",
    "roken pipe",
)


def run(loop):
    """Calls `loop()` until it returns, and returns what it does.

    The loop makes its process group (`torch.distributed.init_process_group("gloo")`) and all that
    depends on it itself, loads the newest checkpoint, and lets errors of collectives pass. When
    another rank was lost, the group is destroyed, the environment becomes that of the next
    generation (MASTER_PORT, TORCHELASTIC_RESTART_COUNT, ..., after the loss of a node also RANK and
    WORLD_SIZE), and the loop is called again. Any
    other error passes. Where nobody would replace a lost rank, this is `loop()`.
    """
    _session.expect_changes()
    while True:
        try:
            result = loop()
        except Exception as error:
            if not _is_explained(error):
                raise
            why_not = _why_not_in_place()
            if why_not:
                print("autolaunch: this rank is started anew: " + why_not, file=sys.stderr)
                _session.expect_no_changes(why_not)
                raise
        else:
            _session.expect_no_changes("its training loop has ended")
            return result
        # Behind the handler: what the loop had is not held by its error any more.
        groups = _destroy_process_groups()
        word = _session.leave_generation()
        # A model that is cut over ranks holds itself, and so connections to ranks that wait for
        # us. Else this would cost a tenth of a second, and the memory that forked ranks share.
        if any(group() is not None for group in groups):
            gc.collect()
        _move_to(_wait_for_next(word))


def _is_explained(error):
    """Whether the generation is over. What may be of a peer waits for the agent to say so."""
    until = time.monotonic() + (_WORD_SECONDS if _may_be_of_a_peer(error) else 0)
    while not _session.is_over():
        left = until - time.monotonic()
        if left <= 0 or not _session.wait(left):
            return False
    return True


def _may_be_of_a_peer(error):
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    # Of torch.distributed, from 2.1 on.
    if any(kind.__name__ == "DistError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OF_A_PEER)


def _distributed():
    """torch.distributed, where the program has it and a group of its own."""
    found = sys.modules.get("torch.distributed")
    if found is None or not found.is_available() or not found.is_initialized():
        return None
    return found


def _process_groups():
    distributed = _distributed()
    if distributed is None:
        return []
    module = distributed.distributed_c10d
    world = getattr(module, "_world", None)
    return list(getattr(world, "pg_map", None) or getattr(module, "_pg_map", {}))


def _why_not_in_place():
    for group in _process_groups():
        for backend in str(_distributed().get_backend(group)).lower().split(","):
            if backend.rpartition(":")[2] not in _PLAIN_BACKENDS:
                return "going on in place was not tried with a process group of " + backend
    return ""


def _destroy_process_groups():
    """Weak references to them: whoever still holds one holds its connections."""
    groups = [weakref.ref(group) for group in _process_groups()]
    if groups:
        try:
            _distributed().destroy_process_group()
        except RuntimeError:  # its peers are gone, and so is the group
            pass
    return groups


def _wait_for_next(word):
    """What the agent says there, as a table."""
    import json

    until = time.monotonic() + _NEXT_SECONDS
    came = b""
    with word:
        while not came.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("autolaunch: the agent began no other generation in time")
            if not select.select([word], [], [], left)[0]:
                continue
            part = word.recv(1 << 12)
            if not part:
                raise ConnectionError("autolaunch: no other generation follows for this process")
            came += part
    fields = json.loads(came)
    if fields.get("type") != "generation":
        raise ConnectionError("autolaunch: the agent said something else than where to go on")
    return fields


def _move_to(fields):
    changed = {
        "AUTOLAUNCH_SOCKET": fields["socket"],
        "AUTOLAUNCH_STORE": fields["store"],
        "AUTOLAUNCH_STORE_TOKEN": fields["store_token"],
        "AUTOLAUNCH_GENERATION": str(fields["generation"]),
        "MASTER_ADDR": fields["master_address"],
        "MASTER_PORT": str(fields["master_port"]),
        "TORCHELASTIC_RESTART_COUNT": str(fields["generation"]),
    }
    for name, field in _NUMBERS.items():
        if field in fields:
            changed[name] = str(fields[field])
    os.environ.update({name: value for name, value in changed.items() if name in os.environ})
    _session.begin_anew()
