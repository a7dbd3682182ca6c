"""Random event logs as a replay could write them, and clocks to lay over them."""

import numpy as np

OP_WINDOW, OP_ISSUE, OP_EVENT, OP_CLAIM, OP_DEMAND, OP_RETIRE, OP_ASK, OP_FREE = range(8)


def random_log(rng, layers, experts, w0, windows, split):
    """Draw a log as a replay could write it: guesses for later layers, claimed, retired or reclaimed."""
    log = []
    flying = set()
    busy = rng.choice([0.1, 0.4, 0.9])

    def guess(first, last):
        for layer in range(first, last):
            for expert in rng.permutation(experts):
                key = int(layer * experts + expert)
                if key not in flying and rng.random() < busy / 2:
                    flying.add(key)
                    log.append((OP_ISSUE, key))

    for window in range(w0, w0 + windows):
        log.append((OP_WINDOW, window))
        guess(0, min(layers, int(rng.integers(0, 3))))
        for layer in range(layers):
            if rng.random() < 0.1:
                guess(layer, layer + 1)
            log.append((OP_EVENT, layer))
            named = []
            for key in sorted(flying):
                if key // experts == layer:
                    named.append((OP_CLAIM if rng.random() < 0.5 else OP_RETIRE, key))
                elif rng.random() < 0.1:
                    named.append((OP_RETIRE, key))
            flying.difference_update({key for _, key in named})
            claimed = {key for op, key in named if op == OP_CLAIM}
            for key in rng.integers(layer * experts, (layer + 1) * experts, rng.poisson(busy * 3)):
                if rng.random() < 0.05 or int(key) not in claimed:
                    named.append((OP_DEMAND, int(key)))
            log += [named[i] for i in rng.permutation(len(named))]
            log.append((OP_ASK, layer))
            if split:
                log.append((OP_FREE, layer))
            guess(layer + 1, min(layers, layer + 1 + int(rng.integers(0, 3))))
    return log


def random_clock(rng):
    workers = int(rng.integers(1, 17))
    stream = float(rng.choice([0.3, 1.0, 3.0, 7.7]))
    return {
        "workers": workers,
        "reserved": int(rng.integers(0, workers)),
        "pieces": int(rng.integers(1, 8)),
        "latency_us": float(rng.choice([0.0, 0.0015, 0.01, 80.0])),
        "stream_gbps": stream,
        "device_gbps": float(stream * rng.choice([0.5, 1.0, 2.0, 3.3])),
        "pre_us": float(rng.choice([0.0, 0.001, 0.0125, 0.1, 200.0])),
        "post_us": float(rng.choice([0.0, 0.002, 0.0335, 0.1, 600.0])),
    }


def random_sizes(rng, layers, experts):
    top = int(rng.choice([3, 20, 300, 1_700_000]))
    if rng.random() < 0.3:
        return np.full((layers, experts), top, np.int64)
    return rng.integers(1, top + 1, (layers, experts))


def random_timing(rng, w0, windows, layers):
    """Draw pre and post of about half the events, in nanoseconds, and as the trace's table has them."""
    events = [(w, layer) for w in range(w0, w0 + windows) for layer in range(layers) if rng.random() < 0.5]
    pre, post = ({event: int(rng.integers(0, 300)) for event in events} for _ in range(2))
    table = {
        "window": np.array([w for w, _ in events], np.uint32),
        "layer": np.array([layer for _, layer in events], np.uint16),
        "pre_us": np.array([pre[event] / 1000 for event in events], np.float32),
        "post_us": np.array([post[event] / 1000 for event in events], np.float32),
    }
    return pre, post, table
