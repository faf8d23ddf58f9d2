"""Fit the polynomials that `irrun.fast` computes the error function with.

    python benchmarks/fit_erf.py

erf(z) equals tanh(z p(z^2)) for a smooth function p = atanh(erf(z)) / z. The program fits a polynomial p by weighted
least squares in f64. The weights are adapted until the largest error, of erf for Gelu and relative to erf for Erf, is
minimal. It prints the coefficients from the constant term up, and the largest error.
"""

from __future__ import annotations

import math

import numpy as np

#: From here on, erf rounds to 1 in f32.
LARGEST = 4.0


def fit(degree: int, is_relative: bool) -> tuple[np.ndarray, float]:
    """Return the coefficients in powers of z^2 and the largest error."""
    nodes = np.cos(np.pi * (np.arange(600) + 0.5) / 600)
    squares = (nodes + 1) / 2 * LARGEST**2
    z = np.sqrt(squares)
    erf, erfc = (np.array([function(v) for v in z]) for function in (math.erf, math.erfc))
    exact = 0.5 * np.log((1 + erf) / erfc) / z
    sensitivity = (1 - erf * erf) * z  # of erf to p
    if is_relative:
        sensitivity /= erf
    basis = np.polynomial.chebyshev.chebvander(nodes, degree)
    weights = sensitivity.copy()
    best, smallest = np.zeros(degree + 1), math.inf
    for _ in range(400):
        candidate = np.linalg.lstsq(basis * weights[:, None], exact * weights, rcond=None)[0]
        errors = np.abs(basis @ candidate - exact) * sensitivity
        if errors.max() < smallest:
            best, smallest = candidate, float(errors.max())
        weights *= 0.5 + errors / errors.max()
        weights = np.maximum(weights / weights.max(), 1e-12)
    series = np.polynomial.Chebyshev(best, domain=[0, LARGEST**2])
    return series.convert(kind=np.polynomial.Polynomial).coef, smallest


def main() -> None:
    for name, degree, is_relative in (("Gelu", 6, False), ("Erf", 8, True)):
        coefficients, error = fit(degree, is_relative)
        print(f"{name}: degree {degree}, largest error {error:.2g}")
        print(*(f"    {c!r}," for c in coefficients.tolist()), sep="\n")


if __name__ == "__main__":
    main()
