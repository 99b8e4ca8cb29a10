#!/usr/bin/env python3
"""Writes tests/data/plan/*/machine.xml: small machines as hwloc's lstopo saves them, made up from the lines below.

    tests/data/plan/make_machines.py

Each has the traits of a kind of machine, with few cores. unit.plan_machines plans on each, with the options that about.txt
beside it names, and compares with plan.txt.
"""
import itertools
import pathlib

FOLDER = pathlib.Path(__file__).parent
CLASSES = {"gpu": "0302", "amd": "0380", "hca": "0207"}


def bits(numbers):
    """hwloc's form of a bitmap: 32 bits a word, highest first."""
    words = [0] * (max(numbers, default=0) // 32 + 1)
    for number in numbers:
        words[number // 32] |= 1 << (number % 32)
    return ",".join(f"0x{word:08x}" for word in reversed(words))


class Node:
    """One <object>: a piece of the machine with its CPUs and its NUMA nodes."""

    def __init__(self, object_type, cpus=(), nodes=(), **attributes):
        self.object_type, self.cpus, self.nodes, self.attributes = object_type, sorted(cpus), sorted(nodes), attributes
        self.children, self.infos = [], {}

    def add(self, child):
        self.children.append(child)
        return child

    def write(self, out, counter, depth=1):
        text = f'{"  " * depth}<object type="{self.object_type}"'
        if self.object_type not in ("Bridge", "PCIDev", "OSDev"):
            for name, value in (("cpuset", self.cpus), ("nodeset", self.nodes)):
                text += f' {name}="{bits(value)}" complete_{name}="{bits(value)}"'
        for name, value in self.attributes.items():
            text += f' {name}="{value}"'
        text += f' gp_index="{next(counter)}"'
        if not self.children and not self.infos:
            out.append(text + "/>")
            return
        out.append(text + ">")
        for name, value in self.infos.items():
            out.append(f'{"  " * (depth + 1)}<info name="{name}" value="{value}"/>')
        for child in self.children:
            child.write(out, counter, depth + 1)
        out.append(f'{"  " * depth}</object>')


class Machine:
    """packages x numa x l3 x cores x threads, symmetric; `cores` may be a list, one count an L3 of the machine.

    Threads of a core are numbered apart, as x86 firmware does, or side by side (adjacent=True). node_ids: NUMA numbers.
    no_memory: nodes without memory. extra: {place: (number, subtype)}, memory without CPUs of its own beside a node.
    """

    def __init__(self, name, packages=1, numa=1, l3=1, cores=4, threads=2, adjacent=False, node_ids=None, no_memory=(),
                 extra=None, allowed=None, far=32):
        self.name, self.far, self.allowed = name, far, allowed
        counts = cores if isinstance(cores, list) else [cores] * (packages * numa * l3)
        total, core_numbers, counts = sum(counts), itertools.count(), iter(counts)
        ids = node_ids or list(range(packages * numa))
        self.ids, self.per_package, self.places, extra = ids, numa, [], extra or {}
        self.root = Node("Machine")
        for package_number in range(packages):
            package = self.root.add(Node("Package", os_index=package_number))
            for place in range(package_number * numa, (package_number + 1) * numa):
                parent = package.add(Node("Group", kind="0", subkind="0")) if numa > 1 else package
                self.places.append(parent)
                caches = []
                for _ in range(l3):
                    cache = Node("L3Cache", nodes=[ids[place]], cache_size=16 << 20, depth=3, cache_linesize=64,
                                 cache_associativity=16, cache_type=0)
                    for _ in range(next(counts)):
                        number = next(core_numbers)
                        cpus = [number * threads + t if adjacent else number + t * total for t in range(threads)]
                        core = cache.add(Node("Core", cpus, [ids[place]], os_index=number))
                        for cpu in cpus:
                            core.add(Node("PU", [cpu], [ids[place]], os_index=cpu))
                        cache.cpus += cpus
                    cache.cpus.sort()
                    caches.append(cache)
                parent.cpus = sorted(cpu for cache in caches for cpu in cache.cpus)
                parent.nodes = [ids[place]] + [number for number, _ in extra.get(place, [])]
                memory = 0 if place in no_memory else 32 << 30
                parent.add(Node("NUMANode", parent.cpus, [ids[place]], os_index=ids[place], local_memory=memory))
                for number, subtype in extra.get(place, []):
                    parent.add(Node("NUMANode", parent.cpus, [number], os_index=number, subtype=subtype,
                                    local_memory=16 << 30))
                parent.children += caches
                if parent is not package:
                    package.cpus, package.nodes = sorted(package.cpus + parent.cpus), sorted(package.nodes + parent.nodes)
        for package in self.root.children:
            self.root.cpus += package.cpus
            self.root.nodes += package.nodes
        self.root.cpus.sort()
        self.root.nodes.sort()

    def host_bridge(self, place, bus):
        """A root complex at a NUMA node (its number in `places`), or at the machine as a whole (None)."""
        parent = self.root if place is None else self.places[place]
        return parent.add(Node("Bridge", bridge_type="0-1", depth=0, bridge_pci=f"0000:[{bus:02x}-{bus + 15:02x}]")), bus

    @staticmethod
    def bridge(parent, bus, device, child_bus, last=None):
        return parent.add(Node("Bridge", bridge_type="1-1", depth=1, bridge_pci=f"0000:[{child_bus:02x}-{last or child_bus:02x}]",
                               pci_busid=f"0000:{bus:02x}:{device:02x}.0", pci_type="0604 [1000:c010] [0000:0000] 00",
                               pci_link_speed="0.000000"))

    @staticmethod
    def device(parent, bus, kind, name, ids, function=0, up=True):
        """A GPU by its model, or an HCA by its name (mlx5_0)."""
        pci = parent.add(Node("PCIDev", pci_busid=f"0000:{bus:02x}:00.{function}",
                              pci_type=f"{CLASSES[kind]} [{ids}] [0000:0000] a1", pci_link_speed="0.000000"))
        if kind == "hca":
            os_device = pci.add(Node("OSDev", name=name, osdev_type=3))
            os_device.infos = {"Port1State": "4" if up else "1", "Port1LID": "0x1", "Port1LMC": "0"}
        else:
            pci.infos["PCIDevice"] = name

    def slot(self, place, bus, kind, name, ids, **more):
        """A device below a root port of its own."""
        host, first = self.host_bridge(place, bus)
        self.device(self.bridge(host, first, 1, first + 1), first + 1, kind, name, ids, **more)

    def switch(self, place, bus, devices):
        """Devices (kind, name, ids) below one PCIe switch."""
        host, first = self.host_bridge(place, bus)
        upstream = self.bridge(self.bridge(host, first, 1, first + 1, first + 15), first + 1, 0, first + 2, first + 15)
        for k, (kind, name, ids) in enumerate(devices):
            self.device(self.bridge(upstream, first + 2, k, first + 3 + k), first + 3 + k, kind, name, ids)

    def save(self):
        root, lines = self.root, ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
                                  '<topology version="2.0">']
        allowed = root.cpus if self.allowed is None else self.allowed
        root.attributes = {"os_index": 0, "allowed_cpuset": bits(allowed), "allowed_nodeset": bits(root.nodes)}
        root.infos["HostName"] = self.name
        root.write(lines, itertools.count(1))
        if len(self.ids) > 1:
            def distance(a, b):
                return 10 if a == b else 12 if a // self.per_package == b // self.per_package else self.far
            places = range(len(self.ids))
            values = " ".join(str(distance(a, b)) for a in places for b in places) + " "
            indexes = " ".join(map(str, self.ids)) + " "
            lines += [f'  <distances2 type="NUMANode" nbobjs="{len(self.ids)}" kind="5" name="NUMALatency" indexing="os">',
                      f'    <indexes length="{len(indexes)}">{indexes}</indexes>',
                      f'    <u64values length="{len(values)}">{values}</u64values>', "  </distances2>"]
        folder = FOLDER / self.name
        folder.mkdir(exist_ok=True)
        (folder / "machine.xml").write_text("\n".join(lines + ["</topology>"]) + "\n")


H100, A100, CX7, CX6 = ("gpu", "H100 SXM5 80GB", "10de:2330"), ("gpu", "A100-SXM4-40GB", "10de:20b0"), "15b3:1021", "15b3:101b"


def hca(number, ids=CX7):
    return ("hca", f"mlx5_{number}", ids)


def dgx(name, **more):
    machine = Machine(name, packages=2, l3=2, cores=8, **more)
    for place in range(2):
        for k in range(2):
            first = 4 * place + 2 * k
            machine.switch(place, 0x10 + 0x20 * (2 * place + k), [H100, H100, hca(first), hca(first + 1)])
        machine.slot(place, 0x90 + 0x10 * place, *hca(8 + place, CX6))
    return machine


def main():
    dgx("dgx").save()
    dgx("cpuset", allowed=[*range(18, 26), *range(50, 58)]).save()

    epyc = Machine("epyc_nps4", packages=2, numa=4, l3=2, cores=2)
    for k, place in enumerate([3, 1, 7, 5]):
        epyc.switch(place, 0x10 + 0x20 * k, [A100, hca(k, CX6)])
    epyc.save()

    snc = Machine("snc2", packages=2, numa=2, cores=6)
    for k in range(8):
        snc.slot(k // 2, 0x10 + 0x10 * k, *H100)
    snc.slot(0, 0x90, *hca(0))
    snc.slot(2, 0xa0, *hca(1))
    snc.save()

    grace = Machine("grace_hopper", packages=2, cores=72, threads=1, node_ids=[0, 1], far=40,
                    extra={0: [(4, "GPUMemory")], 1: [(12, "GPUMemory")]})
    for place in range(2):
        grace.slot(place, 0x10 + 0x40 * place, "gpu", "GH200 480GB", "10de:2342")
        grace.slot(place, 0x30 + 0x40 * place, *hca(place))
    grace.save()

    mi250x = Machine("mi250x", packages=1, numa=4, l3=2, cores=4, threads=2,
                     allowed=[cpu for cpu in range(64) if cpu % 4 != 0])
    for place, bus in [(3, 0xc0), (3, 0xc4), (1, 0xc8), (1, 0xcc), (0, 0xd0), (0, 0xd4), (2, 0xd8), (2, 0xdc)]:
        mi250x.slot(place, bus, "amd", "Aldebaran/MI200 [Instinct MI250X]", "1002:7408")
    mi250x.save()

    mi300x = Machine("mi300x_cpx", packages=2, numa=1, l3=4, cores=4)
    for k in range(4):
        mi300x.slot(k // 2, 0x10 + 0x20 * k, "amd", "Aqua Vanjaram [Instinct MI300X]", "1002:74a1")
    mi300x.save()

    power = Machine("power9_v100", packages=2, cores=5, threads=4, adjacent=True, node_ids=[0, 8], far=40,
                    extra={0: [(255, "GPUMemory"), (254, "GPUMemory")], 1: [(253, "GPUMemory"), (252, "GPUMemory")]})
    for k in range(4):
        power.slot(k // 2, 0x10 + 0x10 * k, "gpu", "V100-SXM2-16GB", "10de:1db1")
    for k in range(2):
        host, bus = power.host_bridge(k, 0x80 + 0x10 * k)
        port = power.bridge(host, bus, 1, bus + 1)
        for function in range(2):
            power.device(port, bus + 1, "hca", f"mlx5_{2 * k + function}", "15b3:1019", function=function)
    power.save()

    workstation = Machine("workstation", cores=6)
    workstation.slot(0, 0x00, "gpu", "GeForce RTX 4090", "10de:2684")
    workstation.save()

    no_gpu = Machine("no_gpu", packages=2, l3=2, cores=3)
    no_gpu.slot(1, 0x40, *hca(0))
    no_gpu.save()

    vm = Machine("flattened_vm", packages=2, cores=4)
    for k in range(4):
        vm.slot(None, 0x10 * k, *A100)
    vm.save()

    threadripper = Machine("memoryless_node", packages=1, numa=4, l3=2, cores=2, no_memory=(1, 3))
    for k, place in enumerate([0, 1]):
        threadripper.slot(place, 0x10 + 0x20 * k, "gpu", "GeForce RTX 2080 Ti", "10de:1e04")
    threadripper.save()

    odd = Machine("odd_cores", l3=2, cores=[5, 4])
    for k in range(2):
        odd.slot(0, 0x10 + 0x10 * k, *A100)
    odd.save()

    for name in ("more_ranks", "fewer_ranks"):
        machine = Machine(name, packages=2, cores=6)
        for k, place in enumerate([0, 0, 0, 1]):
            machine.slot(place, 0x10 + 0x20 * k, *A100)
        machine.save()

    mig = Machine("mig", packages=2, cores=4)
    for k in range(2):
        mig.switch(k, 0x10 + 0x40 * k, [A100, hca(k, CX6)])
    mig.save()

    cxl = Machine("cxl", packages=2, cores=4, extra={1: [(2, "CXLMemory")]})
    for k in range(2):
        cxl.slot(k, 0x10 + 0x40 * k, *H100)
    cxl.save()

    Machine("knl", cores=8, threads=4, extra={0: [(1, "MCDRAM")]}).save()

    smt_off = Machine("smt_off", packages=2, cores=8, threads=1)
    for k in range(4):
        smt_off.slot(k // 2, 0x10 + 0x20 * k, *H100)
    smt_off.save()


if __name__ == "__main__":
    main()
