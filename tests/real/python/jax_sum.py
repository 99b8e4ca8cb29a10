# jax.distributed: ADDRESS SIZE RANK, or nothing where it finds them by itself (Slurm).
import sys
import os
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
if len(sys.argv) > 1:
    jax.distributed.initialize(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), initialization_timeout=60)
else:
    jax.distributed.initialize(initialization_timeout=60)
from jax.experimental import multihost_utils
import jax.numpy as jnp

rank = jax.process_index()
gathered = multihost_utils.process_allgather(jnp.arange(3.0) + 10 * rank)
print(f"result jax rank {rank} of {jax.process_count()}: {gathered.tolist()}", flush=True)
jax.distributed.shutdown()
