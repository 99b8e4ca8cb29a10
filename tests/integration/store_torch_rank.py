"""PyTorch's part of store_torch_test.sh: a rank, a client of our store, or the server of a store for our client."""
import subprocess
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

TIMEOUT = timedelta(seconds=60)


def has_libuv_switch():
    return "use_libuv" in (dist.TCPStore.__init__.__doc__ or "")


def backends():
    """Some versions have the switch but were built without libuv."""
    if not has_libuv_switch():
        return ["threads"]
    try:
        dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, use_libuv=True)
    except RuntimeError:
        return ["threads"]
    return ["libuv", "threads"]


def join():
    dist.init_process_group("gloo", init_method="env://", timeout=TIMEOUT)
    value = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(value)
    dist.barrier()
    print("sum", int(value.item()), flush=True)
    dist.destroy_process_group()


def operations(port):
    store = dist.TCPStore("127.0.0.1", port, None, False, timeout=TIMEOUT, wait_for_workers=False)
    prefixed = dist.PrefixStore("here", store)
    for key in ("n", "here/k"):  # left by an earlier client of this store
        store.delete_key(key)
    before = store.num_keys()
    prefixed.set("k", b"\0\xff")
    assert store.get("here/k") == b"\0\xff"
    assert store.add("n", 3) == 3 and store.add("n", -4) == -1
    assert store.num_keys() == before + 2
    assert store.compare_set("c", "x", "y") == b"x" and store.compare_set("c", "", "y") == b"y"
    assert store.delete_key("c") is True and store.delete_key("c") is False
    if hasattr(store, "multi_set"):
        store.multi_set(["a", "b"], ["1", "2"])
        assert store.multi_get(["b", "a"]) == [b"2", b"1"]
        store.append("a", "x")
        assert store.get("a") == b"1x"
    if hasattr(store, "check"):
        store.set("a", "1x")
        assert store.check(["a"]) is True and store.check(["never"]) is False
    try:
        store.wait(["never"], timedelta(milliseconds=50))
        raise SystemExit("a wait for a key that nobody sets ended")
    except RuntimeError:
        pass
    if hasattr(store, "multi_set"):  # the older client cannot go on after a timeout
        store.set("large", "x" * (4 << 20))
        assert len(store.get("large")) == 4 << 20
    if hasattr(store, "queue_push"):
        store.queue_push("q", "one")
        assert store.queue_len("q") == 1 and store.queue_pop("q") == b"one"
    if hasattr(store, "list_keys"):
        assert "n" in store.list_keys()
    if hasattr(store, "barrier"):
        store.barrier("together", 1, TIMEOUT)
    print("operations:", " ".join(name for name in dir(store) if not name.startswith("_")))


def serve(backend, helper):
    options = {"use_libuv": backend == "libuv"} if has_libuv_switch() else {}
    server = dist.TCPStore("127.0.0.1", 0, None, True, timeout=TIMEOUT, wait_for_workers=False, **options)
    client = subprocess.Popen([helper, "client", str(server.port)])
    server.set("from_python", "hello")
    status = client.wait(timeout=60)
    assert status == 0, f"our client failed against torch's {backend} store: {status}"
    assert server.get("from_cpp") == b"done"


if __name__ == "__main__":
    if sys.argv[1] == "join":
        join()
    elif sys.argv[1] == "operations":
        operations(int(sys.argv[2]))
    elif sys.argv[1] == "about":
        if not (dist.is_available() and dist.is_gloo_available()):
            raise SystemExit("this torch has no gloo")
        print(torch.__version__, *backends())
    elif sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3])
    else:
        raise SystemExit(f"unknown part {sys.argv[1]!r}")
