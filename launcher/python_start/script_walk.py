# Which imports of installed packages a program begins with, in whatever file of the user's they stand: those before which
# nothing has been executed but other imports, and what has no effect on any (definitions, constants). Read from the text of
# the files; nothing of them is executed. Runs in a process of its own, forked from the interpreter before its imports, so
# that this may import what it likes.
import ast
import os
import sys

MOST_FILES = 200
PLAIN_NAMES = ("__all__", "__author__", "__license__", "__version__")  # that Python gives no meaning at an import


class Stop(Exception):
    """The walk ends here; all that was found before is good."""


class Walk:
    def __init__(self, roots):
        self.roots = roots
        self.imports = []  # (file, its module, line, statement)
        self.bound = {}  # of each module of the user's that was walked: its names
        self.files = []

    # Where modules are.

    def find(self, name):
        """The module's spec, without an import of its parents; None: it is not found."""
        spec, path, parts = None, None, name.split(".")
        for count in range(1, len(parts) + 1):
            full = ".".join(parts[:count])
            found = (finder.find_spec(full, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
            spec = next(filter(None, found), None)
            if spec is None or (count < len(parts) and spec.submodule_search_locations is None):
                return None
            path = spec.submodule_search_locations
        return spec

    def is_installed(self, spec):
        if spec.origin in ("built-in", "frozen"):
            return True
        places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
        return bool(places) and any(
            all(form(place).startswith(self.roots) for place in places)
            for form in (os.path.abspath, os.path.realpath))

    # What a file executes.

    def module(self, name):
        """A module of the user's and its parents, as an import executes them."""
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            full = ".".join(parts[:count])
            if full in self.bound or full in sys.modules:
                continue
            spec = self.find(full)
            if spec is None:
                raise Stop("no module %s" % full)
            if not spec.has_location:
                continue  # a folder without __init__.py
            if not spec.origin.endswith(".py"):
                raise Stop("%s is no Python text" % spec.origin)
            package = full if spec.submodule_search_locations is not None else full.rpartition(".")[0]
            self.file(spec.origin, full, package)

    def file(self, path, name, package):
        if len(self.files) == MOST_FILES:
            raise Stop("more than %d files" % MOST_FILES)
        self.bound[name] = names = set()
        self.files.append(path)
        with open(path, "rb") as text:
            tree = ast.parse(text.read(), path)
        later = False  # annotations are not executed
        for node in tree.body:
            try:
                if isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level:
                    later = later or any(one.name == "annotations" for one in node.names)
                elif isinstance(node, ast.Import):
                    self.import_(node, path, name, names)
                elif isinstance(node, ast.ImportFrom):
                    self.import_from(node, path, name, package, names)
                elif not has_no_effect(node, names, later):
                    raise Stop("it is no import")
            except Stop as stop:
                if stop.args[1:]:  # of a file that is imported here
                    raise
                raise Stop("%s:%d: %s" % (path, node.lineno, stop.args[0]), path) from None

    def emit(self, node, statement, path, name):
        self.imports.append((path, name, node.lineno, statement))

    def import_(self, node, path, name, names):
        for one in node.names:
            names.add(one.asname or one.name.partition(".")[0])
            spec = self.find(one.name.partition(".")[0])
            if spec is None:
                raise Stop("no module %s" % one.name)
            if self.is_installed(spec):
                self.emit(node, "import " + alias(one), path, name)
            else:
                self.module(one.name)

    def import_from(self, node, path, name, package, names):
        names.update(one.asname or one.name for one in node.names)
        base = node.module or ""
        if node.level:
            parts = package.split(".") if package else []
            if node.level > len(parts):
                raise Stop("it is relative to no package")
            base = ".".join(parts[: len(parts) - node.level + 1] + ([base] if base else []))
        spec = self.find(base.partition(".")[0])
        if spec is None:
            raise Stop("no module %s" % base)
        if self.is_installed(spec):
            if node.level:
                raise Stop("it is relative to an installed package")
            return self.emit(node, "from %s import %s" % (base, ", ".join(map(alias, node.names))), path, name)
        self.module(base)
        bound = self.bound.get(base, set())
        for one in node.names:
            if one.name == "*":
                if "__all__" in bound:
                    raise Stop("__all__ may name modules")
            elif one.name in bound:
                continue
            elif self.find(base + "." + one.name) is not None and "*" not in bound:
                self.module(base + "." + one.name)
            else:
                raise Stop("nobody can tell what %s of %s is" % (one.name, base))


def alias(one):
    return one.name + (" as " + one.asname if one.asname else "")


def is_constant(node):
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(map(is_constant, node.elts))
    if isinstance(node, ast.Dict):
        return all(map(is_constant, node.values)) and all(isinstance(key, ast.Constant) for key in node.keys)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and isinstance(
            node.operand.value, (int, float))
    return isinstance(node, ast.Constant)


def is_harmless_annotation(node):
    return node is None or isinstance(node, (ast.Constant, ast.Name))


def has_no_effect(node, names, later):
    """On anything but names of its own file, which it adds to `names`."""
    if isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return True
    if isinstance(node, ast.Assign):
        names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        return is_constant(node.value) and all(
            isinstance(target, ast.Name) and (
                not target.id.startswith("__") or target.id in PLAIN_NAMES) for target in node.targets)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        names.add(node.name)
        every = node.args
        arguments = getattr(every, "posonlyargs", []) + every.args + every.kwonlyargs
        arguments += [one for one in (every.vararg, every.kwarg) if one]
        annotations = [one.annotation for one in arguments] + [node.returns]
        return (not node.decorator_list
                and all(is_constant(value) for value in every.defaults + every.kw_defaults if value)
                and (later or all(map(is_harmless_annotation, annotations))))
    if isinstance(node, ast.ClassDef):
        names.add(node.name)
        plain = all(isinstance(base, ast.Name) and base.id in ("object", "Exception") for base in node.bases)
        return plain and not node.decorator_list and not node.keywords and all(
            has_no_effect(part, set(), later) for part in node.body)
    return False


def main_file(walk, script, module):
    """(file, package) of the program; parents of a module are executed before it."""
    if script != "-m":
        if not os.path.isfile(script):
            raise Stop("%s is no file" % script)
        return script, ""
    spec = walk.find(module)
    if spec is not None and spec.submodule_search_locations is not None:
        walk.module(module)
        module += ".__main__"
        spec = walk.find(module)
    if spec is None or not spec.has_location or not spec.origin.endswith(".py"):
        raise Stop("-m %s is no file of Python text" % module)
    if walk.is_installed(spec):
        raise Stop("-m %s is installed, and runs what nobody knows yet" % module)
    package = module.rpartition(".")[0]
    if package:
        walk.module(package)
    return spec.origin, package


def walk_script(script, module, roots):
    """(imports, files, why it ended there)."""
    walk = Walk(roots)
    try:
        path, package = main_file(walk, script, module)
        walk.file(path, "__main__", package)
        end = "that is all of it"
    except Stop as stop:
        end = stop.args[0]
    except (SyntaxError, ValueError, OSError, RecursionError) as error:
        end = "%s: %s" % (type(error).__name__, error)
    return walk.imports, walk.files, end
