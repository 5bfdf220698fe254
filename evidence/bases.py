"""The base models that come with minprm, raised anew: `python -m evidence.bases PRESET SEED ...`

    python -m evidence.bases cups 0 1 2      # 2 minutes of one core of an AMD EPYC
    python -m evidence.bases smoke 0         # 15 s
    python -m evidence.bases errand 0 3 4 5  # 9 minutes

Each is written to minprm/load/bases/, and what is known of it to bases.json there. One thread
raises it. A processor that adds up in another order gives weights that differ in their rounding:
split into micro-batches of 1,024 tokens, smoke's is 5e-6 nats a token off, and has the same skills.
"""

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from evidence.results import save, this_program
from minprm.commands.presets import PRESETS
from minprm.constants import Config, fail
from minprm.envs import make_world
from minprm.load import shipped, tiny
from minprm.model.policy import Policy


def main() -> None:
    """Raises one model for each seed."""
    parser = argparse.ArgumentParser(prog="python -m evidence.bases")
    parser.add_argument("preset")
    parser.add_argument("seeds", type=int, nargs="+")
    flags = parser.parse_args()
    cfg = PRESETS.get(flags.preset)
    if cfg is None or cfg.model != "tiny":
        fail(f"{flags.preset}: no preset of the embedded model; it has cups, smoke and errand")
    torch.set_num_threads(1)
    for seed in flags.seeds:
        policy = tiny.raise_one(make_world(cfg), cfg.tiny, seed, cfg.micro_tokens)
        ship(policy, cfg, seed, this_program())


def ship(policy: Policy, cfg: Config, seed: int, made_by: dict) -> None:
    """Writes the weights beside the others, and into bases.json what is known of them."""
    world = make_world(cfg)
    file = shipped.FILE.with_name(f"{cfg.preset}-{seed}.safetensors")
    with TemporaryDirectory() as folder:
        policy.save(Path(folder) / "base")
        shutil.copyfile(Path(folder) / "base/model.safetensors", file)
    known = json.loads(shipped.FILE.read_text(encoding="utf-8"))
    known[file.stem] = {
        **made_by,
        "settings": shipped.settings(world, cfg.tiny, seed),
        "lesson": shipped.first_lesson(world, cfg.tiny, seed),
        "skills": tiny.gate(policy, world, cfg.thought_tokens),
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    save(shipped.FILE, **dict(sorted(known.items())))


if __name__ == "__main__":
    main()
