"""All randomness is a function of (seed, stage, update), and of nothing that happened before.

So a resumed run draws what it would have drawn, and no generator's state has to be saved.
"""

import random
import zlib


def noise_seed(seed: int, stage_id: str, update: int) -> int:
    """A seed for the sampler; a walk or an episode adds the number of its step to it."""
    return zlib.crc32(f"{seed} {stage_id} {update}".encode()) * 1000


def pick(items: list, n: int, seed: int, stage_id: str, update: int) -> list:
    """The n items of this update. Items are used in epochs, each in a random order of its own."""
    picked = []
    orders = {}
    for k in range(update * n, (update + 1) * n):
        epoch, i = divmod(k, len(items))
        if epoch not in orders:
            shuffler = random.Random(f"{seed} {stage_id} {epoch}")
            orders[epoch] = shuffler.sample(items, len(items))
        picked.append(orders[epoch][i])
    return picked
