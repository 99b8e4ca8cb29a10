"""Looks for canaries: canaries.py look ROOT... prints "CANARY WHERE" of each that this user can read in files, names, sockets
and /proc entries; canaries.py listen SECONDS_FILE prints those in the packets of the loopback until that file is there;
canaries.py rank is a rank that has them, and loses them in every way that ranks do.
"""
import base64
import json
import os
import re
import socket
import stat
import struct
import sys
import time
import traceback

NAME = b"kan" + b"ari-"
CANARY = re.compile(NAME + b"([0-9]{2})-" + os.environ["CANARY_MARK"].encode())


def encoded_names():
    """What each of them begins with, in the forms in which a secret is still one: hexadecimal, base64 at each of its three
    alignments, UTF-16, and turned round."""
    forms = [NAME.hex().encode(), NAME.hex().upper().encode(), NAME.decode().encode("utf-16-le"), NAME[::-1]]
    for before in range(3):
        text = base64.b64encode(b"\0" * before + NAME)
        whole = (before + len(NAME)) // 3 * 4  # of which all bits are known
        forms.append(text[(before * 8 + 5) // 6:whole])
    return forms


ENCODED = encoded_names()
MOST = 32 << 20


def tell(found, where):
    for number in sorted(set(CANARY.findall(found))):
        print(number.decode(), where, flush=True)
    for form in (form for form in ENCODED if form in found):
        print("encoded", ascii(form), where, flush=True)


def look_at_file(path):
    try:
        facts = os.lstat(path)
        if stat.S_ISREG(facts.st_mode):
            with open(path, "rb") as file:
                tell(file.read(MOST), path)
        elif stat.S_ISSOCK(facts.st_mode):
            ask(socket.AF_UNIX, path, path)
    except OSError:
        pass


def look_at_folder(root):
    for folder, folders, files in os.walk(root, onerror=None):
        for name in folders + files:
            tell(os.fsencode(name), f"the name {folder}/{name}")
        for name in files:
            look_at_file(os.path.join(folder, name))


def ask(family, address, where):
    for question in (b"", b"GET / HTTP/1.0\r\n\r\n", struct.pack("<IIQ", 0, 1, 4) + b"init"):
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(0.1)
            try:
                connection.connect(address)
                connection.sendall(question)
                tell(connection.recv(1 << 16), where)
            except OSError:
                return


def look_at_sockets():
    with open("/proc/net/unix") as table:
        for line in table.read().splitlines()[1:]:
            tell(line.encode(), "/proc/net/unix")
            name = line.split()[7:]
            if name and name[0].startswith("@autolaunch"):
                ask(socket.AF_UNIX, "\0" + name[0][1:], name[0])
    with open("/proc/net/tcp") as table:
        for line in table.read().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[7] == JOB_UID:
                port = int(fields[1].split(":")[1], 16)
                ask(socket.AF_INET, ("127.0.0.1", port), f"port {port}")


def look_at_processes():
    names = ("cmdline", "environ", "comm", "stat", "status", "maps", "limits", "mountinfo", "cgroup", "wchan", "auxv")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) != os.getpid():
            for name in names:
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        tell(file.read(MOST), f"/proc/{pid}/{name}")
                except OSError:
                    pass


def listen(until):
    try:
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.ntohs(3))
        packets.bind(("lo", 0))
    except OSError as error:
        print(f"not tried: packets of the loopback: {error}", flush=True)
        return
    print("listening", flush=True)
    packets.settimeout(0.1)
    seen = 0
    while not os.path.exists(until):
        try:
            packet = packets.recv(1 << 17)
            seen += 1
            if str(os.environ["VAULT_PORT"]) and int(os.environ["VAULT_PORT"]) not in struct.unpack("!HH", packet[20:24]):
                tell(packet, "a packet")
        except TimeoutError:
            pass
    print("packets", seen, flush=True)


def rank():
    number, generation = os.environ["RANK"], os.environ["AUTOLAUNCH_GENERATION"]
    with open(os.environ["OF_A_KEY_FILE"], "rb") as file:
        values = [file.read().decode()] + [os.environ.get(name, "") for name in ("OF_A_FILE", "OF_A_COMMAND", "OF_VAULT")]
    said = " ".join(values)
    stdin = sys.stdin.read() if number == "0" and generation == "0" else ""
    print("prints", said, flush=True)
    with open(f"here-{generation}-{number}", "w") as file:
        file.write(f"{sum(map(len, values))} {len(stdin)}")
    looks = 0
    while not os.path.exists("go"):
        time.sleep(0.01)
        looks += 1
        if generation == "0" and looks % 50 == 0:
            print("waits", flush=True)  # the search may take long: this is no hang
    if generation == "1":
        time.sleep(600)  # it hangs, with the secrets in its frames
    if number == "1":
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            json.dump({"message": {"message": f"RuntimeError: {said}", "extraInfo": {"py_callstack": said}}}, file)
        try:
            raise RuntimeError(f"no answer with {said}")
        except RuntimeError:
            traceback.print_exc()
        os._exit(1)
    time.sleep(600)


JOB_UID = os.environ.get("JOB_UID", "0")
if sys.argv[1] == "rank":
    rank()
elif sys.argv[1] == "listen":
    listen(sys.argv[2])
else:
    for root in sys.argv[2:]:
        look_at_folder(root)
    look_at_sockets()
    look_at_processes()
