# Runs inside the user's interpreter, after its start and before its program, in a namespace that
# nobody else sees. It must leave no trace but the modules: no module of its own, no patched class.
import builtins
import sys

if "os" not in sys.modules:
    raise RuntimeError("the interpreter was started without os (-S)")
import os

IMPORTED_LATE = (("torch.optim", "torch._dynamo"),)  # by the first optimizer, and half of the wait
current = ["the interpreter's start"]
readers = [0]  # the process that reads ahead


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


def imported_late():
    """What each rank will import at the first use of what is here, and takes long; empty: nothing that is known."""
    for package, late in IMPORTED_LATE:
        here = sys.modules.get(package)
        folder = os.path.dirname(os.path.dirname(said_of(here, "__file__")))
        if here is not None and late not in sys.modules and os.path.isdir(
                os.path.join(folder, late.rpartition(".")[2])):
            return late
    return ""


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
    find_copies()
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
    if shared:
        write_record("read %d\t%d\t%s" % part for part in files_read(
            [module for name, module in sys.modules.items() if name in new]))
    return "ready %d %s" % (len(new), imported_late())


result = ""  # the interpreter asks for one after every step
