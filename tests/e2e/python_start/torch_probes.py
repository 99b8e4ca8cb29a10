"""probes.py's, and what a program with torch sees besides; see there."""
import torch
import torch.multiprocessing
import probes


def doubled(tensor):
    return (tensor * 2).tolist()


def fill(index, tensor):
    tensor[index] = index + 1 + torch.initial_seed() % 1


def pooled(method):
    with torch.multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(doubled, [torch.ones(2)])


@probes.probe
def torch_fork():
    return pooled("fork")


@probes.probe
def torch_spawn():
    shared = torch.zeros(2).share_memory_()
    torch.multiprocessing.spawn(fill, args=(shared,), nprocs=1)
    return [shared.tolist(), shared.is_shared()]


@probes.probe
def torch_forkserver():
    return pooled("forkserver")


@probes.probe
def torch_multiprocessing_defaults():
    return [torch.multiprocessing.get_start_method(), torch.multiprocessing.get_sharing_strategy()]


@probes.probe
def torch_loader():
    return [batch.tolist() for batch in torch.utils.data.DataLoader(torch.arange(4), batch_size=2, num_workers=1)]


@probes.probe
def torch_devices():
    return [torch.cuda.is_available(), torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork()]


@probes.probe
def torch_settings():
    return [torch.get_num_threads(), torch.get_num_interop_threads(), str(torch.get_default_dtype()),
            torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(), torch.__version__]


@probes.probe
def torch_trains():
    torch.manual_seed(3)
    model = torch.nn.Linear(64, 64)
    model(torch.randn(256, 64)).square().mean().backward()
    return [float(model.weight.grad.sum()), float(torch.rand(1))]


@probes.probe
def torch_hooks():
    import signal
    import sys
    return [[repr(signal.getsignal(number)).split(" at ")[0] for number in (2, 11, 15, 17)], sys.excepthook.__name__]


if __name__ == "__main__":
    probes.main()
