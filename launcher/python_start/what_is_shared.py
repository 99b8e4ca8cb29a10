# A part of warm_interpreter.py: what has this process that a forked rank could not have for itself?
# Its threads end before a fork and begin anew at the next call, by its own pthread_atfork handler.
STOPS_ITS_THREADS = "openblas"


def links(folder):
    found = {}
    for name in os.listdir(folder):
        try:
            found[name] = os.readlink(folder + "/" + name)
        except OSError:  # the one that listed them
            pass
    return found


def shared_mappings():
    with open("/proc/self/maps") as maps:
        return {line.split(None, 5)[-1].strip() for line in maps if line.split()[1][:4] == "rw-s"}


def threads():
    return len(os.listdir("/proc/self/task"))


def has_children():
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/children" % task) as children:
            if set(children.read().split()) - {str(readers[0])}:
                return True
    return False


most_threads = [1, current[0]]  # and which import made the last of them
trial = [0]  # a fork that ends at once; with torch imported its end takes 25 ms, which nobody waits for
first_fds = links("/proc/self/fd")
first_mappings = shared_mappings()


def what_is_shared():
    """Why ranks could not be forked from here, by descriptors, mappings and processes."""
    note_reads_of_c()
    for number, name in links("/proc/self/fd").items():
        if first_fds.get(number) == name:
            continue
        kind = "a socket" if name.startswith("socket:") else name
        kind = "the device " + name if name.startswith("/dev/") else kind
        return "opened " + kind
    for name in shared_mappings() - first_mappings:
        return "mapped memory that is shared (%s)" % name
    if has_children():
        return "started a process"
    count = threads()
    if count > most_threads[0]:
        most_threads[:] = count, current[0]
    if "mpi4py.MPI" in sys.modules:
        return "initialized MPI"
    return ""


def threads_that_stay():
    """A fork tells: libraries that end their threads before one have ended them after it."""
    if threads() == 1:
        return ""
    import time

    with open("/proc/self/maps") as maps:
        known = STOPS_ITS_THREADS in maps.read()
    if known:
        trial[0] = os.fork()
        if trial[0] == 0:
            os._exit(0)
    for _ in range(100):
        if not known or threads() == 1:
            break
        time.sleep(0.01)
    if threads() == 1:
        return ""
    return "%s made %d threads that stay" % (most_threads[1], threads() - 1)


def forget_trial():
    if trial[0] and os.waitpid(trial[0], os.WNOHANG)[0]:
        trial[0] = 0


def said_of(module, name):
    """A text of the module's own; some make up attributes that are asked for, as torch.ops does."""
    value = (getattr(module, "__dict__", None) or {}).get(name)
    return value if isinstance(value, str) else ""


def installed_roots():
    """Where the interpreter's own modules are, and the packages that were installed for it."""
    roots = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    roots |= {path for path in sys.path if os.path.basename(path).endswith("-packages")}
    site = sys.modules.get("site")
    if site is not None and getattr(site, "ENABLE_USER_SITE", False):
        roots.add(site.getusersitepackages())
    ours = getattr(sys.modules.get("autolaunch._rank_session"), "__file__", None)
    if ours:  # it connects at its first call, which is the rank's
        roots.add(os.path.dirname(ours))
    return tuple({os.path.join(form(root), "") for root in roots
                  for form in (os.path.abspath, os.path.realpath)})


def from_elsewhere(names):
    """A module that is neither the interpreter's nor a package's that was installed for it."""
    roots = installed_roots()
    for name in names:
        file = said_of(sys.modules.get(name), "__file__")
        if not os.path.isabs(file):  # made by a module, as torch.classes
            continue
        if not (file.startswith(roots) or os.path.realpath(file).startswith(roots)):
            return "%s is %s, which is no installed package" % (name, file)
    return ""


def has_monitors():
    monitoring = getattr(sys, "monitoring", None)  # from 3.12 on
    return monitoring is not None and any(map(monitoring.get_tool, range(6)))


def why_not_from_here():
    if sys.flags.inspect or sys.flags.interactive or "importtime" in sys._xoptions:
        return "-i and -X importtime are for an interpreter of one's own"
    if sys.gettrace() or sys.getprofile() or has_monitors():
        return "a debugger or profiler watches the interpreter from its start on"
    if "perf" in sys._xoptions or getattr(sys, "is_stack_trampoline_active", bool)():
        return "-X perf writes a file of the interpreter's own pid"
    if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
        return "the interpreter runs without the GIL"
    return what_is_shared() and "at its start it " + what_is_shared()
