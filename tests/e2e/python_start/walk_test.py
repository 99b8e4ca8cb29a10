"""walk_test.py SCRIPT_WALK: which imports a program begins with, over its files. Nothing of them is executed."""
import os
import sys
import tempfile

walk = {}
with open(sys.argv[1]) as text:
    exec(compile(text.read(), sys.argv[1], "exec"), walk)
ROOTS = tuple(os.path.join(form(sys.prefix), "") for form in (os.path.abspath, os.path.realpath))


def imports_of(files, script="train.py", module=""):
    """The statements, and why there are no more."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(name, "w") as file:
                file.write(text)
        sys.path.insert(0, folder)
        sys.path_importer_cache.clear()
        loaded = set(sys.modules)
        try:
            imports, _, end = walk["walk_script"](script, module, ROOTS)
        finally:
            sys.path.pop(0)
            os.chdir("/")
        assert set(sys.modules) == loaded, "modules were imported"
        return "; ".join(statement for _, _, _, statement in imports), end.replace(folder + "/", "")


def check(files, statements, end="that is all of it", **more):
    got = imports_of(files, **more)
    assert got == (statements, end), "%s:\n  expected %s\n  got      %s" % (files, (statements, end), got)


def effect(statement):
    """One that ends the walk."""
    check({"train.py": "import json\n%s\nimport os\n" % statement}, "import json", "train.py:2: it is no import")


def no_effect(statement):
    check({"train.py": "import json\n%s\nimport os\n" % statement}, "import json; import os")


check({"train.py": "import json\n@d\ndef f(): pass"}, "import json", "train.py:3: it is no import")
for harmless in ("'a text'", "x = 1", "A = [1, -2, {'a': (None,)}]", "__all__ = ['x']", "pass", "def f(a, b=1, *c, d: int = 2): run()",
                 "class A:\n    x = 1\n    def f(self): run()", "class E(Exception): pass", "async def f(): pass"):
    no_effect(harmless)
for harmful in ("x = f()", "x, = 1,", "x.y = 1", "x = y", "x = [f()]", "x = {**y}", "__path__ = ['x']", "def f(a=g()): pass",
                "def f(a: b.c): pass", "class A(B): pass", "class A(metaclass=M): pass",
                "class A:\n    x = f()", "if x:\n    import a", "try:\n    import a\nexcept ImportError:\n    pass", "f()", "del json",
                "for x in []: pass", "x: y.z = 1", "assert f()", "lambda: 0", "f'{x}'", "global x"):
    effect(harmful)
check({"train.py": "from __future__ import annotations\ndef f(a: b.c) -> d.e: pass\nimport os"}, "import os")
check({"train.py": "import os as o, json\nfrom os import path as p, sep\nfrom json import *"},
      "import os as o; import json; from os import path as p, sep; from json import *")

# Files of the user's: in the order in which they are executed, each once.
mine = {"train.py": "import pkg.a\nfrom pkg import b, VALUE\nimport logging", "pkg/__init__.py": "import json\nVALUE = 1",
        "pkg/a.py": "from . import b\nimport decimal", "pkg/b.py": "import csv\nfrom . import a"}
check(mine, "import json; import csv; import decimal; import logging")
check(dict(mine, **{"pkg/b.py": "import csv\nf()"}), "import json; import csv", "pkg/b.py:2: it is no import")
assert imports_of({"train.py": "import m", "m.py": "import ("})[1].startswith("SyntaxError: ")
check({"train.py": "import os, nothing_like_it"}, "import os", "train.py:1: no module nothing_like_it")
check({"train.py": "from pkg import what", "pkg/__init__.py": ""}, "", "train.py:1: nobody can tell what what of pkg is")
check({"train.py": "from . import x"}, "", "train.py:1: it is relative to no package")
check({"train.py": "import m", "m.so": ""}, "", "train.py:1: m.so is no Python text")
check({"train.py": "import ns.m\nimport os", "ns/m.py": "import json"}, "import json; import os")

# -m, with the packages around it.
check({"pkg/__init__.py": "import json", "pkg/run.py": "import os\nf()"}, "import json; import os", "pkg/run.py:2: it is no import",
      script="-m", module="pkg.run")
check({"pkg/__init__.py": "import json", "pkg/__main__.py": "import os"}, "import json; import os", script="-m", module="pkg")
check({}, "", "-m json.tool is installed, and runs what nobody knows yet", script="-m", module="json.tool")
check({}, "", "-m nothing_like_it is no file of Python text", script="-m", module="nothing_like_it")
print("the walk finds what it should")
