"""Items whose values say which they are, and stores of them."""

import hashlib

import numpy as np

FRAME = {"study": "transient", "seed": 7, "horizon": 3.0, "times": [0.0, 1.5, 3.0], "levels": 2}
ITEMS = [(cell, replica) for cell in range(4) for replica in range(3)]


def key(number):
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def arrays(items, times=3, levels=2):
    """Values that say which item they belong to."""
    base = np.array([100.0 * cell + replica for cell, replica in items])
    grid = np.arange(times * levels).reshape(times, levels) / 7
    return {
        "S": base[:, None, None] + grid,
        "D": base[:, None, None] - grid,
        "X": base[:, None] + grid[:, 0],
        "E": base[:, None] - grid[:, 0],
        "S_sup": base / 3,
    }


def write(store, items, **changes):
    values = arrays(items, **changes)
    return store.write_shard("network", [key(c) for c, _ in items], [r for _, r in items], values)


def content(store):
    """Bytes of every stored item by (key, replica)."""
    return {
        item: {name: values[row].tobytes() for name, values in store.load_shard(path).arrays.items()}
        for item, (path, row) in store.index("network").items()
    }
