"""Physics, finance and other formulas: special loops, complex numbers, small systems of equations."""

from __future__ import annotations

import numpy as np

from .case import Case, complex_of, uniform


def arc_distance(latitude1, longitude1, latitude2, longitude2):
    """Great-circle distances on the unit sphere by the haversine formula."""
    chord = (
        np.sin((latitude2 - latitude1) / 2) ** 2
        + np.cos(latitude1) * np.cos(latitude2) * np.sin((longitude2 - longitude1) / 2) ** 2
    )
    return 2 * np.arctan2(np.sqrt(chord), np.sqrt(1 - chord))


def arc_distance_arguments(size, dtype, rng):
    (n,) = size
    return tuple(uniform(rng, dtype, n, low=-1.2, high=1.2) for _ in range(4))


def normal_cdf(x):
    """The normal distribution's integral (Abramowitz & Stegun, 26.2.17, error below 7.5e-8)."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * series
    return np.where(x >= 0, 1 - tail, tail)


def black_scholes(price, strike, years, rate, volatility):
    """European calls and puts (Black & Scholes, 1973)."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    discount = np.exp(-rate * years)
    call = price * normal_cdf(d1) - strike * discount * normal_cdf(d2)
    put = strike * discount * normal_cdf(-d2) - price * normal_cdf(-d1)
    return call, put


def black_scholes_arguments(size, dtype, rng):
    (n,) = size
    return (
        uniform(rng, dtype, n, low=10, high=50), uniform(rng, dtype, n, low=10, high=50),
        uniform(rng, dtype, n, low=1, high=2), 0.1, 0.2,
    )  # fmt: skip


def ising_sweep(spins, threshold, draws):
    """Metropolis sweeps of the Ising model on a torus; the random numbers come from outside."""
    n, m = spins.shape
    flips = 0
    for sweep in range(draws.shape[0]):
        for i in range(n):
            for j in range(m):
                around = spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % m] + spins[i, j - 1]
                cost = 2 * spins[i, j] * around
                if cost <= 0 or draws[sweep, i, j] < threshold ** (cost // 4):
                    spins[i, j] = -spins[i, j]
                    flips += 1
    return flips, spins.mean()


def ising_sweep_arguments(size, dtype, rng):
    n, m, sweeps = size
    spins = (2 * rng.integers(0, 2, (n, m)) - 1).astype(dtype)
    return spins, 0.3, rng.random((sweeps, n, m))


def self_energies(neighbours, dH, G, D, sigma):
    """Scattering self-energies: for each momentum, energy and phonon, products of small complex matrices, summed."""
    for k in range(G.shape[0]):
        for e in range(G.shape[1]):
            for q in range(D.shape[0]):
                for w in range(D.shape[1]):
                    for i in range(D.shape[-2]):
                        for j in range(D.shape[-1]):
                            for a in range(neighbours.shape[0]):
                                for b in range(neighbours.shape[1]):
                                    if e - w >= 0:
                                        dHG = G[k, e - w, neighbours[a, b]] @ dH[a, b, i]
                                        dHD = dH[a, b, j] * D[q, w, a, b, i, j]
                                        sigma[k, e, a] += dHG @ dHD


def self_energies_arguments(size, dtype, rng):
    momenta, energies, phonon_momenta, phonon_energies, n3d, atoms, bonds, orbitals = size
    kind = complex_of(dtype)

    def numbers(*shape):
        return (rng.uniform(-0.5, 0.5, shape) + 1j * rng.uniform(-0.5, 0.5, shape)).astype(kind)

    return (
        rng.integers(0, atoms, (atoms, bonds)).astype(np.int32),
        numbers(atoms, bonds, n3d, orbitals, orbitals),
        numbers(momenta, energies, atoms, orbitals, orbitals),
        numbers(phonon_momenta, phonon_energies, atoms, bonds, n3d, n3d),
        np.zeros((momenta, energies, atoms, orbitals, orbitals), kind),
    )


def contour_integral(blocks, vectors, points, weights):
    """Moments of the inverse of a matrix polynomial along a contour (Beyn, 2012): a system to solve at each point."""
    degree, n = blocks.shape[0], blocks.shape[1]
    first = np.zeros((n, vectors.shape[1]), dtype=blocks.dtype)
    second = np.zeros((n, vectors.shape[1]), dtype=blocks.dtype)
    for p in range(points.shape[0]):
        z = points[p]
        T = np.zeros((n, n), dtype=blocks.dtype)
        for d in range(degree):
            T += blocks[d] * z ** (d - degree // 2)
        if n == vectors.shape[1]:
            X = np.linalg.inv(T)
        else:
            X = np.linalg.solve(T, vectors)
        if abs(z) < 1.0:
            X = -X
        first += weights[p] * X
        second += weights[p] * z * X
    return first, second


def contour_integral_arguments(size, dtype, rng):
    degree, n, columns, count = size
    kind = complex_of(dtype)
    blocks = (rng.uniform(-1, 1, (degree, n, n)) + 1j * rng.uniform(-1, 1, (degree, n, n))).astype(kind)
    blocks[degree // 2] += 4 * n * np.eye(n, dtype=kind)
    vectors = (rng.uniform(-1, 1, (n, columns)) + 1j * rng.uniform(-1, 1, (n, columns))).astype(kind)
    angles = 2 * np.pi * (np.arange(count) + 0.5) / count
    radius = np.where(np.arange(count) % 2 == 0, 0.8, 1.25)
    points = radius * np.exp(1j * angles)
    return blocks, vectors, points.astype(kind), (points / count).astype(kind)


def go_fast(a):
    """A matrix plus the sum of its diagonal's hyperbolic tangents."""
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def go_fast_arguments(size, dtype, rng):
    (n,) = size
    return (uniform(rng, dtype, n, n),)


def clipped_blend(a, b, low, high, weights):
    """Array arithmetic in integers and floats, as image code has it."""
    mixed = np.clip(a, low, high) * weights[0] + b * weights[1]
    mixed -= mixed.min()
    return (255 * mixed / mixed.max()).astype(np.uint8), np.clip(a, low, high) // 2 + b


def clipped_blend_arguments(size, dtype, rng):
    n, m = size
    return (
        rng.integers(0, 1000, (n, m)).astype(dtype),
        rng.integers(0, 1000, (n, m)).astype(dtype),
        100,
        900,
        (0.3, 0.7),
    )


def runge_kutta(state, steps, dt, sigma, rho, beta):
    """Lorenz's attractor by the classical fourth-order method; the whole path is returned."""

    def derivative(s):
        return np.array([sigma * (s[1] - s[0]), s[0] * (rho - s[2]) - s[1], s[0] * s[1] - beta * s[2]])

    path = np.empty((steps + 1, 3), dtype=state.dtype)
    path[0] = state
    for n in range(steps):
        y = path[n]
        k1 = derivative(y)
        k2 = derivative(y + 0.5 * dt * k1)
        k3 = derivative(y + 0.5 * dt * k2)
        k4 = derivative(y + dt * k3)
        path[n + 1] = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return path


def runge_kutta_arguments(size, dtype, rng):
    (steps,) = size
    return np.array([1.0, 1.1, 0.9], dtype), steps, 0.01, 10.0, 28.0, 8 / 3


def schroedinger(psi, potential, steps, dt):
    """The time-dependent wave equation on a ring by Visscher's staggered steps on real and imaginary parts."""
    real = psi.real.copy()
    imaginary = psi.imag.copy()
    for _ in range(steps):
        real += dt * (potential * imaginary - 0.5 * (np.roll(imaginary, 1) - 2 * imaginary + np.roll(imaginary, -1)))
        imaginary -= dt * (potential * real - 0.5 * (np.roll(real, 1) - 2 * real + np.roll(real, -1)))
    psi[:] = real + 1j * imaginary
    return np.sum(np.abs(psi) ** 2)


def schroedinger_arguments(size, dtype, rng):
    n, steps = size
    x = np.linspace(-5, 5, n)
    psi = (np.exp(-(x**2)) * np.exp(2j * x)).astype(complex_of(dtype))
    return psi, (0.1 * x**2).astype(dtype), steps, 0.1


CASES = (
    Case(arc_distance, arc_distance_arguments, (30,), (1000000,)),
    Case(black_scholes, black_scholes_arguments, (30,), (500000,)),
    Case(ising_sweep, ising_sweep_arguments, (6, 7, 3), (60, 60, 10), ("int64", "int32")),
    Case(self_energies, self_energies_arguments, (2, 3, 2, 2, 2, 3, 2, 2), (2, 4, 2, 3, 2, 6, 4, 4)),
    Case(contour_integral, contour_integral_arguments, (3, 5, 4, 6), (3, 100, 60, 32), terms=10000),
    Case(go_fast, go_fast_arguments, (12,), (3000,)),
    Case(clipped_blend, clipped_blend_arguments, (9, 8), (1500, 1500), ("int64",)),
    Case(runge_kutta, runge_kutta_arguments, (10,), (1200,), terms=100000),
    Case(schroedinger, schroedinger_arguments, (30, 10), (100000, 60)),
)
