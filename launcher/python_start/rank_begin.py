# A part of warm_interpreter.py: what is renewed in a rank before its program begins?
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
    generator = getattr(torch, "default_generator", None)
    if generator is not None and generator.initial_seed() >= 1 << 32:
        generator.seed()
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
