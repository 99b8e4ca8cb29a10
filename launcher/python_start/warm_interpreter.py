# Runs inside the user's interpreter, after its start and before its program, in a namespace that
# nobody else sees. It must leave no trace but the modules: no module of its own, no patched class.
import builtins
import sys

if "os" not in sys.modules:
    raise RuntimeError("the interpreter was started without os (-S)")
import os

KNOWN_TO_BE_READ = tuple(
    "PYTHON LD_ LC_ MALLOC_ GLIBC_ OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ GOTO_ BLIS_ NUMEXPR_ VECLIB_ "
    "CUDA_ CUBLAS_ CUDNN_ NVIDIA_ HIP_ HSA_ ROCR_ ROCM_ TORCH_ PYTORCH_ ATEN_ XLA_ TF_ JAX_".split()
)
KNOWN_NAMES = ("LANG", "LANGUAGE", "TZ", "TMPDIR", "HOME")
# Its threads end before a fork and begin anew at the next call, by its own pthread_atfork handler.
STOPS_ITS_THREADS = "openblas"

reads = {}  # what imports read of the environment: name -> (value or None, statement)
written = set()
current = ["the interpreter's start"]
listed = [None]  # the statement that listed all names
readers = [0]  # the process that reads ahead
initial = dict(os.environ._data)
set_by_imports = {}
lists = []  # of names that were given out: (those never compared, what counts as use, all)
prefixes = {}  # of which no name was among them -> statement
kept = [None]  # the statement that may keep names of our kind
start_texts = []  # (file, its text): what the interpreter's start has executed beside its library


def note_reads_of_c():
    """Those through getenv(3), until now."""
    for key in reads_of_c().split(b"\0")[:-1]:
        if key == b"*":
            listed[0] = listed[0] or current[0]
        elif key not in written:
            reads.setdefault(key, (initial.get(key), current[0]))


def watched_names(names):
    """Names for who lists the environment: whoever takes but those with some prefix is told apart.

    Of such a one nothing depends on the others. Each other use of a name counts as one of them all.
    """
    statement = current[0]
    waiting = set()

    class Name(str):
        __slots__ = ()

        def startswith(self, prefix, *rest):
            waiting.discard(id(self))
            if rest or str.startswith(self, prefix):
                use()
            else:
                prefixes.setdefault(prefix, statement)
            return str.startswith(self, prefix, *rest)

    def use(*_):
        listed[0] = listed[0] or statement
        kept[0] = statement  # it may keep names of this kind
        return True

    for name in vars(str):
        if name not in ("startswith", "__new__", "__getattribute__", "__doc__", "__getnewargs__"):
            def used(self, *rest, of=getattr(str, name), **more):
                use()
                return of(self, *rest, **more)
            setattr(Name, name, used)
    alive = [Name(name) for name in names]
    waiting.update(map(id, alive))
    lists.append((waiting, use, alive))
    return alive, Name


def settle_lists():
    for waiting, use, alive in lists:
        if waiting:  # never compared
            use()
    lists.clear()


def trap_environment():
    """Until the returned function is called, reads through os.environ are noted."""
    kind = type(os.environ)
    plain = {name: kind.__dict__[name] for name in ("__getitem__", "__iter__", "__len__")}
    set_item, del_item = kind.__setitem__, kind.__delitem__
    kinds = set()

    def note(self, key):
        try:
            key = self.encodekey(key)
        except Exception:
            return
        if key not in written:
            reads.setdefault(key, (initial.get(key), current[0]))

    def get(self, key):
        if type(key) in kinds:  # by items() of a list of names: counts as its name does
            return plain["__getitem__"](self, str.__str__(key))
        note(self, key)
        return plain["__getitem__"](self, key)

    def iterate(self):
        names = list(plain["__iter__"](self))
        if self is not os.environ or not names:  # os.environb
            listed[0] = listed[0] or current[0]
            return iter(names)
        watched, name_kind = watched_names(names)
        kinds.add(name_kind)
        return iter(watched)

    def count(self):
        listed[0] = listed[0] or current[0]
        return plain["__len__"](self)

    def set_(self, key, value):
        note_reads_of_c()
        written.add(self.encodekey(key))
        set_item(self, key, value)

    def delete(self, key):
        note(self, key)
        note_reads_of_c()
        written.add(self.encodekey(key))
        del_item(self, key)

    kind.__getitem__, kind.__iter__, kind.__len__ = get, iterate, count
    kind.__setitem__, kind.__delitem__ = set_, delete

    def restore():
        settle_lists()
        for name, value in plain.items():
            setattr(kind, name, value)
        kind.__setitem__, kind.__delitem__ = set_item, del_item

    return restore


def read_start_texts():
    """sitecustomize, usercustomize, .pth files and what they imported ran before any trap."""
    site = sys.modules.get("site")
    library = os.path.dirname(os.__file__) + os.sep
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if file.endswith(".py") and (
                not file.startswith(library) or "-packages" + os.sep in file):
            start_texts.append(file)
    folders = [] if sys.flags.no_site or site is None else {
        path for path in sys.path if path.endswith("-packages")}
    for folder in folders:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.endswith(".pth"):
                start_texts.append(os.path.join(folder, name))
    for at, file in enumerate(start_texts):
        with open(file, "rb") as text:
            start_texts[at] = (file, text.read())


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
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    for _ in range(100):
        if not known or threads() == 1:
            break
        time.sleep(0.01)
    if threads() == 1:
        return ""
    return "%s made %d threads that stay" % (most_threads[1], threads() - 1)


def first_on_path(script):
    """What the interpreter will put in front of sys.path; None: nothing."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return None
    if script == "-m":
        return os.getcwd()
    if script == "-c":
        return ""
    path = os.path.realpath(script)
    return path if os.path.isdir(path) else os.path.dirname(path)


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


def in_walker(script, module, into):
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    names = {"__builtins__": builtins, "__name__": "script_walk"}
    exec(walk_program, names)
    import marshal

    told = marshal.dumps(names["walk_script"](script, module, installed_roots()))
    with open(into, "wb") as pipe:
        pipe.write(told)


def walk(script, module):
    """(imports, files, why no more) of the program; this process imports nothing for it."""
    import marshal  # it is there: every module is read with it

    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            in_walker(script, module, into)
        finally:
            os._exit(0)
    os.close(into)
    with open(out, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    try:
        return marshal.loads(told)
    except (EOFError, ValueError, TypeError):
        return [], [], "the files could not be looked at"


def run_imports(statements):
    """`statements`: (file, its module, line, text)."""
    namespaces = {}
    for file, module, line, statement in statements:
        current[0] = "`%s`" % statement.strip()
        names = namespaces.setdefault(file, {
            "__name__": module, "__builtins__": builtins, "__file__": file})
        try:
            exec(compile("\n" * (line - 1) + statement, file, "exec", dont_inherit=True), names)
        except BaseException as error:
            return "%s: %s: %s" % (current[0], type(error).__name__, error)
        why = what_is_shared()
        if why:
            return "%s %s" % (current[0], why)
    return ""


def split_program(text):
    """The script, its module with -m, whether files are on a shared system, those to read ahead, statements.

    None in place of statements: they are to be found in the script."""
    script, mode, module, shared, count, *rest = text.split("\0")[:-1]
    reads, listed = rest[: int(count)], rest[int(count):]
    statements = [("<preload>", "__preload__", 1, statement) for statement in listed]
    return script, module, bool(shared), reads, None if mode == "auto" else statements


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


def import_all(script, module, automatic, statements):
    """Why ranks cannot be forked now; empty: they can."""
    argv0 = sys.argv[0]
    restore = trap_environment()
    try:
        if automatic and script == "-m":
            import runpy  # which comes first there

            sys.argv[0] = next((file for file, name, _, _ in statements if name == "__main__"), argv0)
        return run_imports(statements)
    finally:
        sys.argv[0] = argv0
        restore()


def record(files, statements, end):
    """What the agent keeps of a walk: lines of a word and its text."""
    lines = ["end " + end] + ["file " + os.path.abspath(file) for file in files]
    lines += ["import %d\t%s\t%s" % (line, os.path.abspath(file), text) for file, _, line, text in statements]
    write_record(lines)


def write_record(lines):
    text = os.fsencode("\n".join(line.replace("\n", " ") for line in lines) + "\n")
    while text:
        text = text[os.write(record_fd, text):]


def prepare(text):
    """"ready ...", or why not. On the way what the program would do first is done."""
    script, module, shared, reads, statements = split_program(text)
    why = why_not_from_here()
    if why:
        return why
    read_start_texts()
    before = set(sys.modules)
    path0 = first_on_path(script)
    if path0 is not None:
        sys.path.insert(0, path0)
    automatic = statements is None
    if automatic:
        statements, files, end = walk(script, module)
        record(files, statements, end)
        if not statements:
            return "the program does not begin with imports of installed packages (%s)" % end
    readers[0] = start_reading(reads) if reads else 0
    try:
        why = import_all(script, module, automatic, statements)
    finally:
        end_reading(readers[0])
    if why:
        return why
    if path0 is not None and (not sys.path or sys.path.pop(0) != path0):
        return "an import has changed the front of sys.path"
    new = set(sys.modules) - before
    why = threads_that_stay() or (automatic and from_elsewhere(new))
    if why:
        return why
    for name in os.environ._data.keys() | initial.keys():
        if os.environ._data.get(name) != initial.get(name):
            set_by_imports[name] = os.environ._data.get(name)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if automatic and shared:
        write_record("read %d\t%d\t%s" % part for part in files_read(
            [module for name, module in sys.modules.items() if name in new]))
    return "ready %d" % len(new)


def check(block):
    """Why a rank with this environment cannot begin here; empty: it can."""
    wanted = dict(item.split(b"=", 1) for item in block.split(b"\0")[:-1])
    for name, (value, statement) in reads.items():
        if wanted.get(name) != value:
            return "%s, which differs between ranks or starts, was read by %s" % (
                os.fsdecode(name), statement)
    if kept[0]:
        return "%s lists the environment, which differs between ranks" % kept[0]
    if listed[0] and wanted.keys() != initial.keys():
        return "%s lists the environment, and other variables are in it now" % listed[0]
    for name in wanted.keys() | initial.keys():
        text = os.fsdecode(name)
        for prefix, statement in prefixes.items():
            if text.startswith(prefix):
                return "%s is new, and %s looks for such names" % (text, statement)
        for file, content in start_texts:
            quoted = b"'%s'" % name in content or b'"%s"' % name in content
            if quoted and wanted.get(name) != initial.get(name):
                return "%s, which differs between ranks or starts, is named in %s" % (text, file)
        if (text.startswith(KNOWN_TO_BE_READ) or text in KNOWN_NAMES) and (
                wanted.get(name) != initial.get(name)):
            return "%s, which libraries read as they are loaded, differs" % text
    return ""


def renew_input():
    """As the interpreter makes it at its start, for what the descriptor is now."""
    stream = sys.__stdin__
    if type(stream).__name__ != "TextIOWrapper" or stream.fileno() != 0:
        return
    import _io  # it is there: open() is from it

    encoding, errors, through = stream.encoding, stream.errors, stream.write_through
    raw = _io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    stream.buffer.__init__(raw, max(os.fstat(0).st_blksize, 1024))
    stream.__init__(stream.buffer, encoding, errors, "\n", not through and os.isatty(0), through)
    stream.mode = "r"


def renew_output(stream, fd):
    """The buffer is as large as a block of the file."""
    buffer = getattr(stream, "buffer", None)
    size = os.fstat(fd).st_blksize
    if type(buffer).__name__ == "BufferedWriter" and buffer.fileno() == fd and size > 1:
        buffer.__init__(buffer.raw, size)


def draw_anew():
    """What modules draw at their import is one rank's own. What an import has seeded stays."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        bits = random.mtrand._rand._bit_generator
        if getattr(bits, "seed_seq", getattr(bits, "_seed_seq", 0)) is not None:
            random.seed()
    torch = sys.modules.get("torch")
    if torch is not None and torch.default_generator.initial_seed() >= 1 << 32:
        torch.default_generator.seed()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))


def begin(block):
    """In the rank, whose descriptors are in place, before its program."""
    data = os.environ._data
    data.clear()
    data.update(item.split(b"=", 1) for item in block.split(b"\0")[:-1])
    for name, value in set_by_imports.items():
        if value is None:
            data.pop(name, None)
        else:
            data[name] = value
    for name in list(os.environ):  # C's own, in the same order
        os.unsetenv(name)
    for name in initial.keys() - data.keys():
        os.unsetenv(name)
    for name, value in data.items():
        os.putenv(name, value)
    renew_input()
    renew_output(sys.__stdout__, 1)
    renew_output(sys.__stderr__, 2)
    threading = sys.modules.get("threading")
    if threading is not None and hasattr(threading.main_thread(), "_set_native_id"):
        threading.main_thread()._set_native_id()
    draw_anew()


result = ""  # the interpreter asks for one after every step
