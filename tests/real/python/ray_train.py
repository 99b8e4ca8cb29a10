# A Ray cluster of the ranks, one node of Ray's each: rank 0 is the head and drives Ray Train's TorchTrainer with a worker on
# each. ray_train.py RANK SIZE HEAD:PORT FOLDER
import os
import subprocess
import sys
import time
os.environ.update(RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", RAY_USAGE_STATS_ENABLED="0", RAY_TRAIN_V2_ENABLED="1")
import ray
import ray.train
import ray.train.torch

rank, size, address, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
command = [os.path.join(os.path.dirname(sys.executable), "ray"), "start", "--block", "--num-cpus=2", "--disable-usage-stats", "--include-log-monitor=false"]
if rank == 0:
    command += ["--head", f"--port={address.rsplit(':', 1)[1]}", "--include-dashboard=false", f"--temp-dir={folder}/ray"]
else:
    command += [f"--address={address}"]
# Ray's workers have a store of their own, which the first of them starts: it must not believe that an agent has.
environment = {name: value for name, value in os.environ.items() if name != "TORCHELASTIC_USE_AGENT_STORE"}
node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def train(config):
    import torch
    import torch.distributed as dist
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(10):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    total = sum(p.sum().item() for p in model.parameters())
    if dist.get_rank() == 0:
        with open(config["result"], "w") as file:
            file.write(f"{dist.get_world_size()} workers, weights {total:.6f}")


done = f"{folder}/done"
deadline = time.monotonic() + 200
if rank == 0:
    while True:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            break
        except (ConnectionError, RuntimeError):
            assert time.monotonic() < deadline and node.poll() is None, "no head"
            time.sleep(0.5)
    while len([each for each in ray.nodes() if each["Alive"]]) < size:
        assert time.monotonic() < deadline, "not all nodes came"
        time.sleep(0.2)
    ray.train.torch.TorchTrainer(
        train, train_loop_config={"result": done + ".new"}, scaling_config=ray.train.ScalingConfig(num_workers=size, resources_per_worker={"CPU": 1}, placement_strategy="STRICT_SPREAD"),
        run_config=ray.train.RunConfig(storage_path=f"{folder}/results")).fit()
    os.rename(done + ".new", done)
    ray.shutdown()
while not os.path.exists(done):
    assert time.monotonic() < deadline and (rank == 0 or node.poll() is None), "rank 0 did not finish"
    time.sleep(0.2)
print(f"result ray rank {rank} of {size}: {open(done).read()}", flush=True)
time.sleep(1 if rank == 0 else 0)  # whose node is the head leaves last
node.terminate()
node.wait()
