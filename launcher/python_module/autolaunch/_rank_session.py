"""The rank's end of docs/session-protocol.md. Nothing is connected before the first call.

Never raises for an agent that is slow or gone, or where there is none: training goes on, and what
is reported goes nowhere. Within run() alone, a generation that is over raises GenerationChanged.
"""
import atexit
import collections
import contextlib
import os
import threading
import time

__all__ = [
    "checkpoint_requested",
    "connected",
    "inputs",
    "phase",
    "report_cannot_resume",
    "report_checkpoint",
    "report_checkpoint_deleted",
    "report_checkpoint_loaded",
    "report_message",
    "report_step",
    "stop_deadline",
    "stop_reason",
    "stop_requested",
]

_PROTOCOL = 3
_MOST_LINE_BYTES = 64 << 10
_MOST_PENDING_BYTES = 256 << 10
_LONGEST_PATH = 107  # of a socket's address
_CONNECT_SECONDS = 10
_FINISH_SECONDS = 1


def _number(value):
    """JSON has no NaN and no infinity: they go as words."""
    value = float(value)
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return value


def _text(value):
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _line(fields, long_field=None):
    import json

    line = (json.dumps(fields) + "\n").encode()
    while len(line) > _MOST_LINE_BYTES:
        fields = dict(fields, **{long_field: fields[long_field][: len(fields[long_field]) // 2]})
        line = (json.dumps(fields) + "\n").encode()
    return line


def _whole_number(value):
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError("autolaunch: %d has more than 63 bits" % number)
    return number


def _connect(path):
    import socket

    # A blocking connect waits while the agent's queue of new connections is full.
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_SECONDS)
    folder = -1
    try:
        if len(os.fsencode(path)) > _LONGEST_PATH:
            folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = "/proc/self/fd/%d/%s" % (folder, os.path.basename(path))
        connection.connect(path)
        connection.setblocking(False)
        return connection
    except OSError:
        connection.close()
        return None
    finally:
        if folder >= 0:
            os.close(folder)


def _free_signal():
    """A real-time signal that nobody in this process has a use for; 0: there is none."""
    import signal

    with open("/proc/self/status") as status:
        lines = [line.split() for line in status]
    masks = [int(line[1], 16) for line in lines if line[0] in ("SigBlk:", "SigIgn:", "SigCgt:")]
    for number in range(signal.SIGRTMAX - 1, signal.SIGRTMIN + 1, -1):
        if not any(mask >> (number - 1) & 1 for mask in masks):
            return number
    return 0


class GenerationChanged(RuntimeError):
    """Another rank was lost; within `run()`, reporting or asking raises it once this is known."""


class _Session:
    def __init__(self):
        self.lock = threading.RLock()  # a signal's handler may report, too
        self.socket = None
        self.is_tried = False
        self.generation = None  # which can be left, while run() is under way
        self.stacks = None  # (signal, memory file), once
        self.reset_requests()

    def reset_requests(self):
        self.output = collections.deque()  # of [bytes that are left, file to go with the first]
        self.pending = 0
        self.input = b""
        self.stop = None
        self.checkpoints = 0
        self.said = set()
        self.phases = []
        self.waited = None  # seconds for input, since the last report
        self.over = None  # why this generation is

    def begin(self):
        """Connects, once."""
        if self.is_tried:
            return
        self.is_tried = True
        path = os.environ.get("AUTOLAUNCH_SOCKET")
        try:
            place = {
                "rank": int(os.environ["RANK"]),
                "local_rank": int(os.environ["LOCAL_RANK"]),
                "generation": int(os.environ["AUTOLAUNCH_GENERATION"]),
            }
        except (KeyError, ValueError):
            return  # not started by autolaunch
        if not path:
            return
        self.socket = _connect(path)
        if self.socket is None:
            return
        self.put(_line(dict(place, type="hello", protocol=_PROTOCOL, pid=os.getpid())))
        self.offer_stacks()

    def offer_stacks(self):
        """On this signal Python itself writes where all threads are, whatever holds its lock."""
        if self.stacks is None:
            try:
                import faulthandler

                number = _free_signal()
                if number == 0 or not hasattr(os, "memfd_create"):
                    return
                file = os.memfd_create("autolaunch-stacks", os.MFD_CLOEXEC)
                faulthandler.register(number, file=file, all_threads=True, chain=False)
            except (ImportError, OSError, RuntimeError, ValueError):
                return  # training goes on without
            self.stacks = (number, file)
        self.put(_line({"type": "python_stacks", "signal": self.stacks[0]}), self.stacks[1])

    def hang_up(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = None
        self.output.clear()
        self.pending = 0

    def put(self, line, file=None):
        self.output.append([memoryview(line), file])
        self.pending += len(line)
        self.flush()

    def flush(self):
        import array
        import socket

        while self.socket is not None and self.output:
            line, file = self.output[0]
            beside = []
            if file is not None:
                beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
            try:
                sent = self.socket.sendmsg([line], beside, socket.MSG_NOSIGNAL)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                return self.hang_up()
            self.pending -= sent
            if sent == len(line):
                self.output.popleft()
            else:
                self.output[0] = [line[sent:], None]

    def tell(self, fields, long_field=None, must=False):
        """Whole or not at all: a report is dropped while too much waits, an announcement never."""
        with self.lock:
            self.begin()
            if self.socket is None:
                return
            line = _line(fields, long_field)
            self.flush()
            if must or self.pending + len(line) <= _MOST_PENDING_BYTES:
                self.put(line)
            self.hear()
            self.raise_if_over()

    def raise_if_over(self):
        if self.over is not None and threading.current_thread() is threading.main_thread():
            raise GenerationChanged("autolaunch: the generation is over: " + self.over)

    def hear(self):
        """Takes what the agent has asked for. Its last words count also when it is gone."""
        import json

        while self.socket is not None:
            try:
                came = self.socket.recv(1 << 16)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                came = b""
            if not came:
                self.hang_up()
            self.input += came
        *lines, self.input = self.input.split(b"\n")
        for line in lines:
            try:
                fields = json.loads(line)
                self.take(fields["type"], fields)
            except (ValueError, KeyError, TypeError):
                self.hang_up()

    def take(self, kind, fields):
        if kind == "stop":
            until = float(fields.get("until", 0))
            if until <= 0:
                until = time.monotonic() + float(fields["grace_seconds"])
            self.stop = (str(fields["reason"]), until)
        elif kind == "checkpoint":
            self.checkpoints += 1
        elif kind == "leave" and fields["generation"] == self.generation:
            self.over = str(fields["reason"])

    def ask(self):
        with self.lock:
            self.begin()
            self.flush()
            self.hear()
            self.raise_if_over()

    # The rest of run(): which generation this is, and the next one.

    def expect_changes(self):
        with self.lock:
            self.begin()
            if self.socket is None:
                return
            self.generation = int(os.environ["AUTOLAUNCH_GENERATION"])
            self.put(_line({"type": "rejoins", "cannot": "", "renumbers": True}))

    def expect_no_changes(self, why):
        with self.lock:
            if self.generation is None:
                return
            self.generation = self.over = None
            if self.socket is not None:
                self.put(_line({"type": "rejoins", "cannot": why}))

    def is_over(self):
        with self.lock:
            self.flush()
            self.hear()
            return self.over is not None

    def wait(self, seconds):
        """For the agent to say something. False: there is nobody who could."""
        import select

        with self.lock:
            if self.socket is None or self.generation is None:
                return False
            word = select.poll()
            word.register(self.socket, select.POLLIN)
        word.poll(seconds * 1000)
        return True

    def leave_generation(self):
        """The socket on which the agent says where to go on."""
        import socket

        ours, agents = socket.socketpair()
        with self.lock, agents:
            if self.socket is not None:
                self.put(_line({"type": "has_left", "generation": self.generation}), agents.fileno())
            self.finish()
            if self.socket is None:
                ours.close()
                raise ConnectionError("autolaunch: the agent is gone: no other generation follows")
        return ours

    def begin_anew(self):
        """By what the environment says now."""
        with self.lock:
            self.hang_up()
            self.is_tried = False
            self.reset_requests()
            self.expect_changes()

    def say_once(self, kind):
        if kind not in self.said:
            self.said.add(kind)
            self.tell({"type": kind}, must=True)

    def enter(self, name):
        with self.lock:
            self.phases.append(name)
            self.tell({"type": "phase", "name": name}, "name", must=True)

    def leave(self, name):
        """Back to the phase around it; with the outermost one steps are owed again."""
        with self.lock:
            if name in self.phases:  # else it was begun before a fork
                self.phases.remove(name)
            around = self.phases[-1] if self.phases else ""
            self.tell({"type": "phase", "name": around}, "name", must=True)

    def finish(self):
        """At the end of the program: what is still on its way, for a second."""
        import select

        with self.lock:
            until = time.monotonic() + _FINISH_SECONDS
            while self.socket is not None and self.output and time.monotonic() < until:
                room = select.poll()
                room.register(self.socket, select.POLLOUT)
                room.poll(_FINISH_SECONDS * 1000)
                self.flush()

    def after_fork(self):
        """A child of a rank that has connected (a data loader's worker) is not the rank: what it
        reports goes nowhere. One of an interpreter that has only imported this may be a rank."""
        self.lock = threading.RLock()
        self.generation = None
        self.hang_up()
        self.reset_requests()


_session = _Session()
atexit.register(_session.finish)
os.register_at_fork(after_in_child=_session.after_fork)


def connected():
    """Whether somebody listens."""
    with _session.lock:
        _session.ask()
        return _session.socket is not None


def inputs(loader):
    """`for batch in autolaunch.inputs(loader):` what it yields; the next report_step() says how
    long the rank has waited for it."""
    batches = iter(loader)
    while True:
        began = time.perf_counter()
        try:
            batch = next(batches)
        except StopIteration:
            return
        finally:
            with _session.lock:
                _session.waited = (_session.waited or 0.0) + time.perf_counter() - began
        yield batch


def report_step(step, loss=None, tokens=None, total_steps=None, seconds=None, input_seconds=None):
    """A step is done. `tokens` counts the whole job's, `seconds` is what this step took.

    `input_seconds`: for which this rank has waited for its input since the report before; without
    it what inputs() has counted.

    Does not block. `loss` may be a tensor of one element: reading it waits for the device.
    """
    fields = {"type": "step", "step": _whole_number(step)}
    if total_steps is not None:
        fields["total_steps"] = _whole_number(total_steps)
    if loss is not None:
        fields["loss"] = _number(loss)
    if tokens is not None:
        fields["tokens"] = _whole_number(tokens)
    if seconds is not None:
        fields["seconds"] = _number(seconds)
    with _session.lock:
        waited, _session.waited = _session.waited, None
    if input_seconds is None:
        input_seconds = waited
    if input_seconds is not None:
        fields["input_seconds"] = _number(input_seconds)
    _session.tell(fields)


def report_checkpoint(step, path, stall_seconds=0.0, save_seconds=None):
    """A checkpoint is published; training stood still for `stall_seconds`.

    `save_seconds`: from its begin until it was published.
    """
    fields = {
        "type": "checkpoint",
        "step": _whole_number(step),
        "path": _text(os.fspath(path)),
        "stall_seconds": _number(stall_seconds),
    }
    if save_seconds is not None:
        fields["save_seconds"] = _number(save_seconds)
    _session.tell(fields, "path")


def report_checkpoint_loaded(step, path):
    """The job's ranks have read a checkpoint's state; one rank says it for all.

    For the event log and the audit trail, which cannot see torch.load by themselves.
    """
    fields = {
        "type": "checkpoint_loaded",
        "step": _whole_number(step),
        "path": _text(os.fspath(path)),
    }
    _session.tell(fields, "path", must=True)


def report_checkpoint_deleted(path):
    """One of the job's checkpoints is deleted."""
    fields = {"type": "checkpoint_deleted", "path": _text(os.fspath(path))}
    _session.tell(fields, "path", must=True)


def report_message(text):
    """A line for the event log; on the screen, too, where it begins with "warning: "."""
    _session.tell({"type": "message", "text": _text(text)}, "text")


def report_cannot_resume(reason):
    """None of the checkpoints that are there can be used: no restart would help.

    An empty reason takes it back, and so does the next step or checkpoint.
    """
    _session.tell({"type": "cannot_resume", "reason": _text(reason)}, "reason", must=True)


@contextlib.contextmanager
def phase(name):
    """`with autolaunch.phase("evaluation"):` no steps come for as long as it likes."""
    name = _text(name)
    if not name:
        raise ValueError("autolaunch: a phase needs a name")
    _session.enter(name)
    try:
        yield
    finally:
        _session.leave(name)


def stop_requested():
    """Whether the job is to stop. Calling it says that this rank saves and stops by itself.

    The agent then sends no SIGTERM before the time is over. Ranks learn it at different steps:
    agree on it (all_reduce, maximum) before leaving the loop.
    """
    with _session.lock:
        _session.say_once("handles_stop")
        _session.ask()
        if _session.stop is not None:
            _session.say_once("heard_stop")
        return _session.stop is not None


def stop_reason():
    """Why, for people; None: nobody asked to stop."""
    _session.ask()
    return _session.stop[0] if _session.stop is not None else None


def stop_deadline():
    """The moment of SIGKILL, in seconds of time.monotonic(); None: nobody asked to stop."""
    _session.ask()
    return _session.stop[1] if _session.stop is not None else None


def checkpoint_requested():
    """True once for every checkpoint that somebody asked for. Agree on it as on stop_requested()."""
    with _session.lock:
        _session.ask()
        if _session.checkpoints == 0:
            return False
        _session.checkpoints -= 1
        return True
