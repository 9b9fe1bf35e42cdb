#!/usr/bin/env python3
"""NumPy over the whole columns of examples/functions.rs and the fields of examples/stencils.rs, one thread, medians of warm
runs in milliseconds: OPENBLAS_NUM_THREADS=1 benches/functions.py [ROWS]"""
import sys
import time

import numpy as np

ROUNDS = 9


def median(run):
    run()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[ROUNDS // 2]


def softmax(v):
    powers = np.exp(v - v.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def laplacian(a):
    out = np.zeros_like(a)
    out[1:-1, 1:-1] = -4.0 * a[1:-1, 1:-1] + a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2]
    return out


def tridiagonal(a, b, c, d):
    levels = a.shape[2]
    cp, dp, x = (np.empty_like(a) for _ in range(3))
    cp[..., 0], dp[..., 0] = c[..., 0] / b[..., 0], d[..., 0] / b[..., 0]
    for k in range(1, levels):
        m = 1.0 / (b[..., k] - a[..., k] * cp[..., k - 1])
        cp[..., k], dp[..., k] = c[..., k] * m, (d[..., k] - a[..., k] * dp[..., k - 1]) * m
    x[..., -1] = dp[..., -1]
    for k in reversed(range(levels - 1)):
        x[..., k] = dp[..., k] - cp[..., k] * x[..., k + 1]
    return x


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    random = np.random.default_rng(1)
    floats = lambda *shape: random.random(shape, dtype=np.float32) - np.float32(0.5)
    v, w, weights, bias = floats(rows, 128), floats(rows, 128), floats(32, 128), floats(32)
    fields = [random.random((256, 256, 64)) for _ in range(4)]
    fields[1] += 4.0
    cases = {
        "dot, (v * w).sum(axis=1)": lambda: (v * w).sum(axis=1),
        "dot, einsum": lambda: np.einsum("ij,ij->i", v, w),
        "distance": lambda: np.sqrt(((v - w) ** 2).sum(axis=1)),
        "softmax": lambda: softmax(v),
        "dense 128 to 32, relu": lambda: np.maximum(v @ weights.T + bias, 0),
        "laplacian": lambda: laplacian(fields[0]),
        "tridiagonal": lambda: tridiagonal(*fields),
    }
    for name, run in cases.items():
        print(f"| {name} | {median(run):.1f} |", flush=True)


if __name__ == "__main__":
    main()
