"""compare.py [--order-differs] FRESH PRELOADED: folders of rank-N.json. Prints each probe that tells them apart.

With a list of modules these come before what the program would import first: --order-differs.

Exits with 1 when there is one, or where probes are missing."""
import json
import os
import sys

FEWEST_PROBES = 60


def load(folder):
    ranks = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as file:
            ranks[name] = json.load(file)
    return ranks


def draws(results):
    return results.get("random_differs_from_others", {}).get("differs", {})



def what_differs(one, other):
    """Of two tables the entries that differ; else both as they are."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one, other
    names = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    return tuple({name: table.get(name) for name in names} for table in (one, other))


ignored = ("modules_order", "modules", "shared_mappings") if sys.argv[1] == "--order-differs" else ()
fresh, preloaded = load(sys.argv[-2]), load(sys.argv[-1])
failures = []
if not fresh or fresh.keys() != preloaded.keys():
    failures.append("ranks: %s and %s" % (sorted(fresh), sorted(preloaded)))
for rank in fresh.keys() & preloaded.keys():
    one, other = fresh[rank], preloaded[rank]
    if len(one) < FEWEST_PROBES or one.keys() != other.keys():
        failures.append("%s: %d and %d probes" % (rank, len(one), len(other)))
    for name in one.keys() & other.keys():
        if name in ignored:
            continue
        if name == "random_differs_from_others":
            if draws(one).keys() != draws(other).keys():
                failures.append("%s %s: %s and %s" % (rank, name, one[name], other[name]))
        elif one[name] != other[name]:
            failures.append("%s %s:\n  fresh     %s\n  preloaded %s" % (
                rank, name, *(json.dumps(part)[:1500] for part in what_differs(one[name], other[name]))))
for results in (fresh, preloaded):
    values = list(results.values())
    for name in draws(values[0]) if len(values) > 1 else ():
        if not name.endswith("kind") and draws(values[0])[name] == draws(values[1])[name]:
            failures.append("ranks draw the same %s" % name)
print("\n".join(failures) or "%d probes of %d ranks are the same" % (
    len(next(iter(fresh.values()))), len(fresh)))
sys.exit(bool(failures))
