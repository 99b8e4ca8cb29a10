"""What a program sees of its interpreter, as JSON, one probe a function.

Run under autolaunch with and without --preload; compare.py compares. What differs from one process to
the next anyhow (pids, times, addresses, draws) is reduced to what has to be the same: its kind.
"""
import json
import logging
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import warnings
try:
    import numpy
except ImportError:
    numpy = None

PROBES = []
seen_at_start = {"stack": [], "names": sorted(globals())}
frame = sys._getframe()
while frame is not None:
    seen_at_start["stack"].append(frame.f_code.co_filename)
    frame = frame.f_back


def probe(function):
    PROBES.append(function)
    return function


def child(code, *options, **more):
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, **more)


def status_lines(*names):
    with open("/proc/self/status") as status:
        return [line.split(None, 1) for line in status if line.split(":")[0] in names]


for name in ("argv", "orig_argv", "path", "executable", "prefix", "base_prefix", "exec_prefix",
             "warnoptions", "pycache_prefix", "dont_write_bytecode", "platlibdir", "flags",
             "_xoptions", "getfilesystemencodeerrors", "ps1"):
    def of_sys(name=name):
        value = getattr(sys, name, None)
        return repr(value() if callable(value) else value)
    of_sys.__name__ = "sys_" + name
    probe(of_sys)


@probe
def sys_flags_each():
    return {name: getattr(sys.flags, name) for name in dir(sys.flags) if not name.startswith(("_", "n_"))
            and name not in ("count", "index")}


@probe
def main_names():
    return seen_at_start["names"]


@probe
def main_stack():
    return seen_at_start["stack"]


@probe
def main_module():
    main = sys.modules["__main__"]
    return [main.__name__, getattr(main, "__file__", None), repr(main.__spec__ and main.__spec__.name),
            repr(main.__package__), type(main.__loader__).__name__, main.__doc__[:20],
            main.__dict__ is globals()]


@probe
def main_cached():
    return getattr(sys.modules["__main__"], "__cached__", "none")


@probe
def modules():
    return sorted(sys.modules)


@probe
def modules_order():
    return [name for name in sys.modules if "." not in name]


@probe
def path_hooks():
    return [len(sys.path_hooks), [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path]]


@probe
def path_importer_cache():
    return sorted(sys.path_importer_cache)


@probe
def environment_of_python():
    return sorted(name for name in os.environ)


@probe
def environment_order():
    return list(os.environ)


@probe
def environment_of_c():
    out = subprocess.run(["env"], capture_output=True, text=True, env=None).stdout
    return [line.split("=")[0] for line in out.splitlines()]


@probe
def environment_in_proc():
    with open("/proc/self/environ") as block:
        return sorted(item.split("=")[0] for item in block.read().split("\0") if item)


@probe
def environment_values():
    skip = ("PORT", "TOKEN", "SOCKET", "RUN_ID", "RUN_DIR", "ERROR_FILE", "STDOUT", "CONFIG", "STORE", "PROBE_OUT")
    # What names this launch and no other: ports, folders, the namespace of its MPI.
    launch = ("PMIX_", "PMI_", "OMPI_MCA_", "PRTE_")
    return {k: v for k, v in os.environ.items()
            if not k.endswith(skip) and not k.startswith(launch) and "SYSTEMD" not in k}


@probe
def environment_can_be_set():
    os.environ["PROBE_SET"] = "1"
    told = subprocess.run(["sh", "-c", "echo $PROBE_SET"], capture_output=True, text=True).stdout
    del os.environ["PROBE_SET"]
    return [told, type(os.environ).__name__, [f.__qualname__ for f in (
        type(os.environ).__getitem__, type(os.environ).__iter__, type(os.environ).__setitem__)]]


@probe
def command_line():
    with open("/proc/self/cmdline") as line:
        return line.read().split("\0")


@probe
def comm():
    with open("/proc/self/comm") as name:
        return name.read()


@probe
def exe():
    return os.readlink("/proc/self/exe")


@probe
def own_process_group():
    return [os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()]


@probe
def parent_is_the_agent():
    with open("/proc/%d/comm" % os.getppid()) as name:
        return name.read()


@probe
def parent_death_signal():
    import ctypes
    signal = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(signal))
    return signal.value


@probe
def ctypes_works():
    import ctypes
    called = []
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: called.append(1) or 0)
    ctypes.CDLL(None).qsort((ctypes.c_int * 3)(3, 2, 1), 3, 4, compare)
    return bool(called)


@probe
def threads():
    return [len(os.listdir("/proc/self/task")), threading.active_count(),
            threading.current_thread() is threading.main_thread(),
            threading.main_thread().native_id == os.getpid(),
            threading.main_thread().ident == threading.get_ident()]


@probe
def affinity():
    return sorted(os.sched_getaffinity(0))


@probe
def memory_policy():
    with open("/proc/self/numa_maps") as maps:
        return maps.readline().split()[1]


@probe
def scheduling():
    return [os.sched_getscheduler(0), os.nice(0)]


@probe
def cgroup():
    with open("/proc/self/cgroup") as groups:
        return groups.read()


@probe
def limits():
    import resource
    return [(name, resource.getrlimit(getattr(resource, name))) for name in dir(resource)
            if name.startswith("RLIMIT_")]


@probe
def signal_masks():
    return status_lines("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")


@probe
def signal_handlers():
    import signal
    return [(int(s), repr(signal.getsignal(s)).split(" at ")[0]) for s in signal.valid_signals()]


@probe
def dumpable_and_seccomp():
    return status_lines("Seccomp", "NoNewPrivs", "CapEff", "Uid", "Gid", "Groups", "Umask", "TracerPid")


@probe
def folder():
    return os.getcwd()


@probe
def umask():
    old = os.umask(0)
    os.umask(old)
    return old


@probe
def descriptors():
    kinds = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue
        kinds[fd] = name.split("/")[-1] if name.startswith("/") and "/fd" not in name else name.split("[")[0]
    kinds = {fd: name for fd, name in kinds.items() if not name.endswith("/fd")}
    return {fd: (name, os.get_inheritable(int(fd))) for fd, name in kinds.items()}


@probe
def streams():
    told = []
    for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__):
        told.append([stream.name, stream.mode, stream.encoding, stream.errors, stream.line_buffering,
                     stream.write_through, stream.newlines, stream.isatty(), stream.fileno(),
                     type(stream.buffer).__name__, stream.seekable(), stream.readable(),
                     stream.buffer.closed, repr(stream)])
    return told


@probe
def streams_identity():
    return [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__]


@probe
def stdin_is_read():
    return sys.stdin.read(100)


@probe
def locale_settings():
    import locale
    return [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(), sys.getfilesystemencoding()]


@probe
def warnings_filters():
    return [repr(f) for f in warnings.filters]


@probe
def warning_shown():
    return child("import warnings; warnings.warn('w', DeprecationWarning)").stderr


@probe
def recursion_limit():
    return [sys.getrecursionlimit(), sys.getswitchinterval()]


@probe
def recursion_depth():
    depth = 0

    def deeper():
        nonlocal depth
        depth += 1
        deeper()
    try:
        deeper()
    except RecursionError:
        pass
    return depth


@probe
def gc_settings():
    import gc
    return [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug(), gc.garbage]


@probe
def hooks():
    return [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__,
            sys.breakpointhook is sys.__breakpointhook__, sys.unraisablehook is sys.__unraisablehook__,
            sys.gettrace(), sys.getprofile(), threading.excepthook.__name__]


@probe
def faulthandler_state():
    import faulthandler
    return faulthandler.is_enabled()


@probe
def tracing_memory():
    import tracemalloc
    return [tracemalloc.is_tracing(), tracemalloc.get_traceback_limit()]


@probe
def hash_of_text():
    return [sys.hash_info.algorithm, sys.flags.hash_randomization,
            hash("a") if os.environ.get("PYTHONHASHSEED", "random") != "random" else "random"]


@probe
def random_differs_from_others():
    # As kinds: that two ranks differ is checked by compare.py with these values.
    draws = {"random": random.random(), "urandom": os.urandom(4).hex()}
    if numpy is not None:
        draws["numpy"] = float(numpy.random.random())
        draws["numpy kind"] = str(numpy.random.get_state()[0])
    if "torch" in sys.modules:
        draws["torch"] = float(sys.modules["torch"].rand(1))
    draws["authkey"] = bytes(multiprocessing.current_process().authkey).hex()
    return {"differs": draws}


@probe
def random_seeded():
    random.seed(7)
    told = [random.random()]
    if numpy is not None:
        numpy.random.seed(7)
        told.append(float(numpy.random.random()))
    return told


@probe
def numpy_computes():
    if numpy is None:
        return None
    a = numpy.arange(90000.0).reshape(300, 300) / 90000
    return [round(float((a @ a).sum()), 3), numpy.__version__]


@probe
def numpy_errors():
    return numpy and numpy.geterr()


@probe
def threads_after_computing():
    return len(os.listdir("/proc/self/task"))


@probe
def multiprocessing_defaults():
    process = multiprocessing.current_process()
    return [multiprocessing.get_start_method(), process.name, process.pid == os.getpid(), process.daemon,
            multiprocessing.parent_process(), len(process.authkey)]


def pooled(x):
    return x * 2 + len(sys.argv)


def in_pool(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(pooled, [1, 2, 3])


@probe
def multiprocessing_fork():
    return in_pool("fork")


@probe
def multiprocessing_spawn():
    return in_pool("spawn")


@probe
def multiprocessing_forkserver():
    return in_pool("forkserver")


@probe
def thread_pool():
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(pooled, range(3)))


@probe
def os_fork():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@probe
def subprocess_inherits_nothing():
    return child("import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd')))").stdout


@probe
def subprocess_environment():
    return child("import os; print(os.environ.get('LD_PRELOAD'), 'AUTOLAUNCH_PYTHON_PARENT' in os.environ)").stdout


@probe
def traceback_text():
    import traceback
    try:
        1 / 0
    except ZeroDivisionError:
        return traceback.format_exc()


@probe
def logging_state():
    return [logging.root.level, len(logging.root.handlers), logging.lastResort.level, sorted(
        logging.root.manager.loggerDict)]


@probe
def site_state():
    site = sys.modules.get("site")
    return [site and site.ENABLE_USER_SITE, "sitecustomize" in sys.modules, "usercustomize" in sys.modules,
            type(exit).__name__, "readline" in sys.modules]


@probe
def inspect_stack():
    import inspect
    return [f.function for f in inspect.stack()][1:]


@probe
def builtins_names():
    import builtins
    return sorted(dir(builtins))


@probe
def temporary_files():
    import tempfile
    return [tempfile.gettempdir(), tempfile.tempdir]


@probe
def shared_mappings():
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if line.split()[1] == "rw-s"})


@probe
def timers():
    import signal
    return [signal.getitimer(kind) for kind in (signal.ITIMER_REAL, signal.ITIMER_PROF)]


@probe
def children():
    with open("/proc/self/task/%d/children" % os.getpid()) as pids:
        return len(pids.read().split())


@probe
def oom_score():
    with open("/proc/self/oom_score_adj") as score:
        return score.read()


@probe
def personality_and_dumps():
    with open("/proc/self/coredump_filter") as dumps, open("/proc/self/personality") as kind:
        return [dumps.read(), kind.read()]


SLOW = ("multiprocessing_fork", "multiprocessing_spawn", "multiprocessing_forkserver")


def main():
    results = {}
    for function in PROBES:
        if "PROBE_QUICK" in os.environ and function.__name__ in SLOW:
            continue
        try:
            results[function.__name__] = function()
        except Exception as error:
            results[function.__name__] = "%s: %s" % (type(error).__name__, error)
    with open(os.path.join(os.environ["PROBE_OUT"], "rank-%s.json" % os.environ["RANK"]), "w") as out:
        json.dump(results, out, default=repr, indent=1)
    import atexit
    atexit.register(print, "atexit ran", flush=True)


if __name__ == "__main__":
    main()
