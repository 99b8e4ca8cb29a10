"""Archives that nobody should unpack, and some that are well: hostile_archives.py FOLDER"""
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

folder = sys.argv[1]


def tar(name, *entries, mode="w"):
    with tarfile.open(os.path.join(folder, name), mode, format=tarfile.PAX_FORMAT) as archive:
        for path, how in entries:
            info = tarfile.TarInfo(path)
            info.mtime = 1700000000
            for key, value in how.items():
                if key != "data":
                    setattr(info, key, value)
            data = how.get("data", b"")
            if info.isreg():
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def link(target):
    return {"type": tarfile.SYMTYPE, "linkname": target}


def same(target):
    return {"type": tarfile.LNKTYPE, "linkname": target}


directory = {"type": tarfile.DIRTYPE, "mode": 0o755}
noise = os.urandom((1 << 20) + 77)
good = (("./", directory), ("./sub", directory), ("./sub/noise", {"data": noise, "mode": 0o644}),
        ("./run.sh", {"data": b"#!/bin/sh\n", "mode": 0o755}), ("latest", link("sub/noise")), ("again", same("sub/noise")),
        ("deep/er/ä b", {"data": b"utf-8"}), ("empty", {}))
tar("good.tar", *good)
tar("good.tgz", *good, mode="w:gz")
tar("good.tar.gz", *good, mode="w:gz")
if shutil.which("zstd"):
    subprocess.run(["zstd", "-q", os.path.join(folder, "good.tar"), "-o", os.path.join(folder, "good.tar.zst")], check=True)
open(os.path.join(folder, "noise"), "wb").write(noise)
with zipfile.ZipFile(os.path.join(folder, "good.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
    for path, data in (("sub/noise", noise), ("run.sh", b"#!/bin/sh\n"), ("deep/er/ä b", b"utf-8"), ("empty", b"")):
        info = zipfile.ZipInfo(path, (2023, 11, 14, 0, 0, 0))
        info.external_attr = (0o755 if path == "run.sh" else 0o644) << 16
        archive.writestr(info, data)

tar("little.tgz", ("sub/a", {"data": b"first"}), ("b", {"data": b"second"}), mode="w:gz")
tar("dots.tar", ("a/../../out", {"data": b"x"}))
tar("absolute.tar", ("/etc/autolaunch-was-here", {"data": b"x"}))
tar("link_out.tar", ("a", link("/etc")))
tar("link_up.tar", ("a/b", link("../../x")))
tar("through.tar", ("a", link("sub")), ("sub", directory), ("a/x", {"data": b"x"}))
tar("below_file.tar", ("a", {"data": b"x"}), ("a/x", {"data": b"x"}))
tar("device.tar", ("null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}))
tar("pipe.tar", ("pipe", {"type": tarfile.FIFOTYPE}))
tar("setuid.tar", ("su", {"data": b"x", "mode": 0o4755}))
tar("setgid.tar", ("sg", {"data": b"x", "mode": 0o2755}))
tar("twice.tar", ("x", {"data": b"1"}), ("./x", {"data": b"2"}))
tar("file_then_folder.tar", ("x", {"data": b"1"}), ("x", directory))
tar("hard_link_out.tar", ("x", same("/etc/passwd")))
tar("hard_link_later.tar", ("x", same("y")), ("y", {"data": b"1"}))
tar("long_name.tar", ("n" * 300, {"data": b"1"}))
tar("deep.tar", ("d/" * 250 + "x", {"data": b"1"}))
tar("nothing.tar")
tar("cut.tar", *good)
os.truncate(os.path.join(folder, "cut.tar"), 1 << 20)
data = bytearray(open(os.path.join(folder, "good.zip"), "rb").read())
data[len(data) // 2] ^= 0xFF
open(os.path.join(folder, "flipped.zip"), "wb").write(data)
open(os.path.join(folder, "no_archive.tar"), "wb").write(noise)
open(os.path.join(folder, "no_archive.zip"), "wb").write(noise)
with zipfile.ZipFile(os.path.join(folder, "dots.zip"), "w") as archive:
    archive.writestr("../out", b"x")
with zipfile.ZipFile(os.path.join(folder, "link_out.zip"), "w") as archive:
    info = zipfile.ZipInfo("a")
    info.create_system = 3
    info.external_attr = 0o120777 << 16
    archive.writestr(info, "/etc")
# 40 MB of nothing in 40 kB.
tar("bomb.tgz", *((f"{i}", {"data": bytes(5 << 20)}) for i in range(8)), mode="w:gz")
# A header that says 1 TB, and ends.
header = tarfile.TarInfo("large")
header.size = 1 << 40
open(os.path.join(folder, "lies.tar"), "wb").write(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
