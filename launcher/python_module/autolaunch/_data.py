"""The job's data on this node, of which some may still come, as autolaunch/data/staged_files.hpp has it for C++."""
import os
import time
import urllib.parse

__all__ = ["staged_data", "staged_files", "await_file"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


def staged_data(name):
    """Where the job's data of that name is: a file or a folder (storage.stage_in of the spec). ValueError: there is none."""
    variable = "AUTOLAUNCH_DATA_" + name.upper()
    path = os.environ.get(variable)
    if not path:
        raise ValueError(f"no data of the name {name!r} is on this node: {variable} is not set; the job's spec brings it: "
                         f"storage: {{stage_in: [{{from: /shared/{name}, as: {name}}}]}}")
    return path


def _stream_of(path):
    """The folder and the listing of what comes, {path below it: bytes} in its order; (None, {}): it is in none."""
    streams = os.environ.get("AUTOLAUNCH_STREAMS", "")
    if not streams.startswith("/"):
        return None, {}
    streams = os.path.normpath(streams)
    parts = os.path.relpath(os.path.abspath(path), streams).split(os.sep)
    if len(parts) < 2 or parts[0] in (os.pardir, os.curdir) or parts[1] != "tree":
        return None, {}
    folder = os.path.join(streams, parts[0])
    try:
        with open(os.path.join(folder, "listing"), "rb") as file:
            head, *lines = file.read().split(b"\n")
    except FileNotFoundError:
        return None, {}
    words = head.split(b" ")
    if len(words) != 6 or words[:3] != [b"autolaunch", b"stream", b"1"] or lines.pop() or len(lines) != int(words[4]):
        raise ValueError(f"{folder}/listing is no listing of data that comes")
    files = {}
    for line in lines:
        size, _, name = line.partition(b" ")
        files[os.fsdecode(urllib.parse.unquote_to_bytes(name))] = int(size)
    return os.path.join(folder, "tree"), files


def staged_files(name):
    """[(path, bytes)] of all files of that data, in folders below it, too, in the order in which they come; also of those
    that are not there yet."""
    data = staged_data(name)
    tree, files = _stream_of(data)
    if tree is not None:
        return [(os.path.join(tree, path), size) for path, size in files.items()]
    if not os.path.isdir(data):
        return [(data, os.path.getsize(data))]
    found = [os.path.join(folder, file) for folder, _, names in os.walk(data) for file in names]
    return [(path, os.path.getsize(path)) for path in sorted(found, key=os.fsencode) if not os.path.islink(path)]


def _comes(path, tree, files):
    """Folders and links are there from the beginning on."""
    return os.path.relpath(os.path.realpath(path), os.path.realpath(tree)) in files


def await_file(path, patience=24 * 3600.0):
    """Waits until a file of the job's data is there, whole, for at most `patience` seconds; returns for how many it has.
    ValueError: it is not there, and none of that name comes; RuntimeError: it comes no more, and why; TimeoutError."""
    path = os.fspath(path)
    began, pause = time.monotonic(), _FIRST_PAUSE
    if os.path.exists(path):
        return 0.0
    tree, files = _stream_of(path)
    if tree is None or not _comes(path, tree, files):
        if os.path.exists(path):
            return 0.0
        raise ValueError(f"there is no file {path}, and none of that name comes")
    failed = os.path.join(os.path.dirname(os.path.dirname(tree)), "failed")
    while True:
        why = None
        try:
            with open(failed, encoding="utf-8", errors="replace") as file:
                why = file.read().split("\n")
        except FileNotFoundError:
            pass
        waited = time.monotonic() - began
        if os.path.exists(path):
            return waited
        if why is not None and len(why) > 2:
            raise RuntimeError(f"{path} does not come: {why[1]}" + (f"; {why[2]}" if why[2] else ""))
        if waited >= patience:
            raise TimeoutError(f"{path} was not there after {patience:g} s: it is still being staged")
        time.sleep(min(pause, patience - waited))
        pause = min(2 * pause, _LONGEST_PAUSE)
