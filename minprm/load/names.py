"""The model, the sampler and the device that a command line names: what is refused at once.

torch is imported where the answer depends on the machine's GPU, and nowhere else: it takes a
second.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from minprm.constants import DeviceName, SamplerName, fail

SMALL = 20 * 10**6  # bytes of weights; the embedded model has one million
CONFIG, ADAPTER_CONFIG = "config.json", "adapter_config.json"


def require_model(path: str) -> None:
    """Exits where no model can be: a folder that holds none, or a name of no folder."""
    require_place(path)
    folder = Path(path)
    if not folder.is_dir() or holds_adapters(path):
        return
    inside = sorted(folder.iterdir())
    for file in inside:
        if _is_gguf(file.name) and not any(folder.glob("*.safetensors")):
            _refuse_gguf(str(file))
    if not (folder / CONFIG).exists():
        models = []
        for child in inside:
            if (child / CONFIG).exists() or holds_adapters(str(child)):
                models.append(str(child))
        if models:
            fail(f"{path} is a folder of models: name one of them, as {', '.join(models)}")
        fail(f"{path} is no model that transformers loads: the folder holds no {CONFIG}")


def holds_adapters(path: str) -> bool:
    """Is it a folder with LoRA adapters?"""
    return (Path(path) / ADAPTER_CONFIG).exists()


def require_place(path: str) -> None:
    """Exits where neither a folder nor a model of the hub can have this name, and at a GGUF."""
    if not path:
        fail("a model, of --model or a checkpoint, has an empty name: name a folder or a hub id")
    if _is_gguf(path):
        _refuse_gguf(path)
    if Path(path).is_file():
        fail(f"{path} is a file: name the folder in which a model lies with its tokenizer")
    if (Path(path) / "metrics.jsonl").exists():
        fail(f"{path} is a run: name one of checkpoints/{Path(path).name}/")
    if "://" in path:
        fail(f"{path} is an address: name a model of the hub as OWNER/NAME, without the rest")
    if not Path(path).exists():
        _require_on_hub(path)


def _require_on_hub(path: str) -> None:
    """Exits where the hub does not answer: transformers would ask on, for each file six times."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    try:
        if not any(try_to_load_from_cache(path, name) for name in (CONFIG, ADAPTER_CONFIG)):
            get_hf_file_metadata(hf_hub_url(path, CONFIG))
    except HFValidationError:
        fail(f"{path} is no model that transformers loads: there is no such folder")
    except HfHubHTTPError:  # an answer, which transformers may word
        pass
    except Exception:  # none: each library for the network has errors of its own
        fail(
            f"{path} is no model that transformers loads: no folder here has this name, and the "
            "hub does not answer. Mend the name or the network, or name a folder that holds the "
            "model"
        )


def _is_gguf(path: str) -> bool:
    return path.lower().endswith(".gguf")


def _refuse_gguf(path: str) -> NoReturn:
    fail(
        f"{path} is a GGUF file, which holds rounded weights for writing: name the model that "
        "it was made from, a folder or hub id with safetensors, or write it as such a folder, as "
        "examples/smollm2.py does"
    )


def is_small(model: str) -> bool:
    """Is it the embedded model, or a checkpoint of its size?"""
    weights = Path(model) / "model.safetensors"
    return model == "tiny" or (weights.exists() and weights.stat().st_size < SMALL)


def require_device(name: DeviceName, sampler: SamplerName) -> None:
    """Exits where the device is not here, or where vLLM would write on another one; and where there
    are more processes than GPUs."""
    if name in ("cuda", "mps") and not _has(name):
        fail(f"--device {name}: this machine has none, or torch cannot use it; leave it out")
    if name in ("cpu", "mps") and uses_vllm(sampler) and _has("cuda"):
        fail(f"--device {name}: vLLM writes on the Nvidia GPU; add --sampler transformers")
    number = int(os.environ.get("LOCAL_RANK", "0"))  # of this process, on this machine
    cards = _cards(name, sampler) if number else 0  # a process alone waits for no torch here
    if cards and number >= cards:
        fail(
            f"torchrun has started more than {number} processes on this machine, and each needs a "
            f"GPU, of which it has {cards}: start {cards}, or add --device cpu --sampler "
            "transformers"
        )


def require_sampler(name: str) -> None:
    """Exits where the sampler of that name is not installed."""
    if uses_vllm(name) and find_spec("vllm") is None:
        fail('--sampler vllm: it is not installed; pip install ".[vllm]", or use transformers')


def uses_vllm(name: str) -> bool:
    """Is the sampler of this name vLLM? auto is, where it is installed and a GPU is there."""
    if name == "auto":
        return find_spec("vllm") is not None and _has("cuda")
    return name == "vllm"


def on_gpu(device: DeviceName, sampler: SamplerName) -> bool:
    """Does a GPU compute, or write?"""
    auto = device == "auto" and _has("cuda")
    return auto or device in ("cuda", "mps") or uses_vllm(sampler)


def _cards(name: DeviceName, sampler: SamplerName) -> int:
    """How many GPUs this machine has for a run on GPUs; 0: it runs on none."""
    import torch

    if name == "mps":
        return 1
    return torch.cuda.device_count() if _has("cuda") and on_gpu(name, sampler) else 0


def _has(device: str) -> bool:
    """Is a device of this kind here, and can torch use it?"""
    import torch

    backends = {"cuda": torch.cuda, "mps": torch.backends.mps}
    return backends[device].is_available()
