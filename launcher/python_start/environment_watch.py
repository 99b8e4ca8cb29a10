# A part of warm_interpreter.py: what have imports read of the environment, and would a rank
# have read the same?
KNOWN_TO_BE_READ = tuple(
    "PYTHON LD_ LC_ MALLOC_ GLIBC_ OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ GOTO_ BLIS_ NUMEXPR_ VECLIB_ "
    "CUDA_ CUBLAS_ CUDNN_ NVIDIA_ HIP_ HSA_ ROCR_ ROCM_ TORCH_ PYTORCH_ ATEN_ XLA_ TF_ JAX_".split()
)
KNOWN_NAMES = ("LANG", "LANGUAGE", "TZ", "TMPDIR", "HOME")

reads = {}  # what imports read of the environment: name -> (value or None, statement)
written = set()
listed = [None]  # the statement that listed all names
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


def check(block):
    """Why a rank with this environment cannot begin here; empty: it can."""
    forget_trial()
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
