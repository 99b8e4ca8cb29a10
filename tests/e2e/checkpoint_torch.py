"""Reads a checkpoint of tests/integration/checkpoint_sample as PyTorch's tools do, and compares every element.

usage: checkpoint_torch.py about
       checkpoint_torch.py read DIRECTORY
       checkpoint_torch.py exported FILE...       the model's tensors are in these safetensors files, as f32
       checkpoint_torch.py save DIRECTORY         writes the same tensors as PyTorch's own checkpoint
"""

import glob
import os
import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader


def expected(name, shape, dtype):
    elements = 1
    for extent in shape:
        elements *= extent
    values = (7 * torch.arange(elements) + sum(name.encode())) % 251
    return values.to(dtype).reshape(shape)


def read(directory):
    reader = HuggingFaceStorageReader(directory)
    stored = reader.read_metadata().state_dict_metadata
    state = {name: torch.full(tensor.size, 3, dtype=tensor.properties.dtype) for name, tensor in stored.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(directory), no_dist=True)
    for name, tensor in state.items():
        assert torch.equal(tensor, expected(name, tensor.shape, tensor.dtype)), name
    types = sorted({str(tensor.dtype) for tensor in state.values()})
    assert state["wte.w"].shape == (64, 24) and state["h.0.conv"].shape == (5, 7, 6, 4)
    chunks = max(len(tensor.chunks) for tensor in stored.values())
    print(f"DCP: {len(state)} tensors of {' '.join(types)} are equal, one in {chunks} boxes")

    entries = 0
    files = glob.glob(os.path.join(directory, "*.safetensors"))
    for file in files:
        with safe_open(file, framework="pt") as content:
            for name in content.keys():
                assert content.get_tensor(name).numel() > 0
                entries += 1
    print(f"safetensors: {entries} entries in {len(files)} files")


def exported(files):
    names = set()
    for file in files:
        with safe_open(file, framework="pt") as content:
            assert content.metadata()["format"] == "pt"
            for name in content.keys():
                tensor = content.get_tensor(name)
                assert torch.equal(tensor, expected(name, tensor.shape, tensor.dtype)), name
                names.add(name)
    print(f"exported: {len(names)} tensors are equal")


def save(directory):
    shapes = {"wte.w": (64, 24), "h.0.b": (31,), "h.0.scale": (), "h.0.conv": (5, 7, 6, 4)}
    state = {name: expected(name, shape, torch.float32) for name, shape in shapes.items()}
    state["ids"] = expected("ids", (41,), torch.int64)
    state["epoch"], state["name"] = 3, "a run"  # what is no tensor
    dcp.save(state, checkpoint_id=directory, no_dist=True)


if sys.argv[1] == "about":
    print(torch.__version__)
elif sys.argv[1] == "read":
    read(sys.argv[2])
elif sys.argv[1] == "exported":
    exported(sys.argv[2:])
else:
    save(sys.argv[2])
