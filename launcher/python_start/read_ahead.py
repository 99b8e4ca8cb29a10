# A part of warm_interpreter.py: what do imports read from a shared file system?
# So that the next interpreter has it read ahead of its own.
PIECE = 1 << 16  # of a mapped file, used or not
READ_BYTES = 1 << 20  # at once
READERS = 16
copied = set()


def look_around(file):
    """An import asks for the state of a module's source and folder, each for itself and in turn."""
    folder, name = os.path.split(file)
    if os.path.basename(folder) == "__pycache__":
        os.path.exists(os.path.join(os.path.dirname(folder), name.partition(".")[0] + ".py"))


def read_parts(parts):
    """In turn, with others of this process that do the same."""
    for part in parts:
        offset, count, file = part.split("\t")
        look_around(file)
        if file in copied:
            continue
        try:
            fd = os.open(file, os.O_RDONLY)
        except OSError:
            continue  # it is read ahead, and no more
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # as told, without the kernel's guesses
        end = int(offset) + int(count)
        at = int(offset)
        while at < end:
            got = len(os.pread(fd, min(READ_BYTES, end - at), at))
            at = at + got if got else end
        os.close(fd)


def start_reading(parts):
    """A process that reads them into the page cache, many at once; this one finds them there."""
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        import threading

        parts = iter(parts)
        lock = threading.Lock()

        def taken():
            while True:
                with lock:
                    part = next(parts, None)
                if part is None:
                    return
                yield part

        readers = [threading.Thread(target=read_parts, args=(taken(),)) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    finally:
        os._exit(0)


def end_reading(pid):
    if pid:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def touched_parts(first, last, offset, pages):
    """(offset, bytes) of a mapped file: the pieces of which a page was used, those side by side as one."""
    page = 4096
    count = (last - first) // page
    flags = os.pread(pages, count * 8, first // page * 8)[7::8]
    step = PIECE // page
    begin = None
    for at in range(0, count + step, step):
        is_used = max(flags[at: at + step], default=0) & 0x80
        if begin is not None and not (is_used and (at - begin) * page < READ_BYTES):
            yield offset + begin * page, (at - begin) * page
            begin = None
        if is_used and begin is None:
            begin = at


def find_copies():
    """Which files are seen as copies on the node, or in pieces of it: by the device that these are on."""
    folder, *pairs = copies.split("\0")[:-1] or [""]
    if not folder:
        return
    copied.update(file for file in pairs[1::2] if mounted and device_of(file) in copy_devices)
    write_record(["copies %d\t%s" % (len(copied), not_mounted)])


def device_of(file):
    try:
        return os.stat(file).st_dev
    except OSError:
        return -1


def files_read(modules):
    """(offset, bytes, file) on the file system of the interpreter's packages, in the order of their use."""
    device = os.stat(sys.prefix).st_dev
    parts = []

    def is_shared(file):
        return os.path.isfile(file) and (file in copied or os.stat(file).st_dev == device)

    for module in modules:
        file = said_of(module, "__cached__")
        file = file if os.path.isfile(file) else said_of(module, "__file__")
        if not file.endswith(".so") and is_shared(file):
            parts.append((0, os.stat(file).st_size, file))
    pages = os.open("/proc/self/pagemap", os.O_RDONLY)
    with open("/proc/self/maps") as maps:
        for line in maps:
            place, _, offset, _, _, *file = line.split(None, 5)
            if file and file[0][0] == "/" and is_shared(file[0].strip()):
                first, last = (int(number, 16) for number in place.split("-"))
                parts += ((at, count, file[0].strip())
                          for at, count in touched_parts(first, last, int(offset, 16), pages))
    os.close(pages)
    return parts
