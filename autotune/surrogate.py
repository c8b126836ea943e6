"""A Gaussian process that learns how fast untried points are, in plain numpy.

The model and its acquisition are textbook: Rasmussen & Williams, "Gaussian Processes for Machine
Learning" (2006), algorithm 2.1 and section 5.4; expected improvement after Jones, Schonlau & Welch,
"Efficient Global Optimization of Expensive Black-Box Functions" (1998). Length scales follow the prior
of Hvarfner, Hellsten & Nardi, "Vanilla Bayesian Optimization Performs Great in High Dimensions"
(2024): they grow with the square root of the number of columns. The hyperparameters climb by Rprop
(Riedmiller & Braun, 1993), which asks only for the signs of a gradient and so needs no line search.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_JITTER = 1e-8
_NOISE_PRIOR = (math.log(1e-3), 2.0)
_LOG_SCALE_BOUNDS = (math.log(0.05), math.log(50.0))
_LOG_NOISE_BOUNDS = (math.log(1e-6), math.log(1.0))


class GaussianProcess:
    """Regression with a Matérn-5/2 kernel and one length scale a column."""

    def __init__(self, columns: int) -> None:
        self._scale_prior = 0.5 * math.log(0.25 * max(columns, 1))
        self._theta = np.append(np.full(columns, self._scale_prior), _NOISE_PRIOR[0])

    def fit(self, x: Array, y: Array, steps: int) -> None:
        """Condition on observations, after `steps` steps of hyperparameter search from the last ones."""
        self._offset, self._unit = float(y.mean()), float(y.std()) + 1e-9
        z = (y - self._offset) / self._unit
        if steps:
            self._theta = self._climb(x, z, steps)
        self._weights = np.exp(-self._theta[:-1])
        self._x = x * self._weights
        covariance = _matern(_squared_distances(self._x, self._x))
        covariance[np.diag_indices(len(z))] += math.exp(self._theta[-1]) + _JITTER
        self._whiten = np.linalg.inv(np.linalg.cholesky(covariance))
        self._alpha = self._whiten.T @ (self._whiten @ z)
        self._variance = max(float(z @ self._alpha) / len(z), 1e-6)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the posterior at each row of x."""
        covariance = _matern(_squared_distances(x * self._weights, self._x))
        explained = np.square(covariance @ self._whiten.T).sum(axis=1)
        deviation = np.sqrt(self._variance * np.maximum(1.0 - explained, 1e-10))
        return covariance @ self._alpha * self._unit + self._offset, deviation * self._unit

    def _climb(self, x: Array, z: Array, steps: int) -> Array:
        """The most probable hyperparameters met on a walk along the gradient's signs."""
        squares = np.square(x[:, None, :] - x[None, :, :])
        theta, best, best_density = self._theta, self._theta, -math.inf
        stride, last = np.full_like(theta, 0.2), np.zeros_like(theta)
        for _ in range(steps):
            density, gradient = self._log_density(theta, squares, z)
            if density > best_density:
                best, best_density = theta, density
            turned = gradient * last
            stride = np.clip(stride * np.where(turned > 0, 1.3, np.where(turned < 0, 0.5, 1.0)), 1e-3, 0.6)
            last = np.where(turned < 0, 0.0, gradient)
            theta = theta + np.sign(last) * stride
            theta[:-1] = np.clip(theta[:-1], *_LOG_SCALE_BOUNDS)
            theta[-1] = np.clip(theta[-1], *_LOG_NOISE_BOUNDS)
        return best

    def _log_density(self, theta: Array, squares: Array, z: Array) -> tuple[float, Array]:
        """Log posterior density of the hyperparameters, and its gradient.

        The signal variance is profiled out: given the rest, its best value is known.
        """
        weights, noise = np.exp(-2.0 * theta[:-1]), math.exp(theta[-1])
        distances = squares @ weights
        covariance = _matern(distances)
        covariance[np.diag_indices(len(z))] += noise + _JITTER
        factor = np.linalg.cholesky(covariance)
        whiten = np.linalg.inv(factor)
        precision = whiten.T @ whiten
        alpha = precision @ z
        variance = max(float(z @ alpha) / len(z), 1e-12)
        scale_pull = theta[:-1] - self._scale_prior
        noise_pull = (theta[-1] - _NOISE_PRIOR[0]) / _NOISE_PRIOR[1]
        likelihood = -0.5 * len(z) * math.log(variance) - float(np.log(np.diag(factor)).sum())
        prior = -0.5 * float(scale_pull @ scale_pull + noise_pull**2)
        pull = np.outer(alpha, alpha) / variance - precision
        gradient = np.empty_like(theta)
        slope = (pull * _matern_slope(distances)).ravel()
        gradient[:-1] = -weights * (slope @ squares.reshape(len(slope), -1)) - scale_pull
        gradient[-1] = 0.5 * noise * np.trace(pull) - noise_pull / _NOISE_PRIOR[1]
        return likelihood + prior, gradient


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """How far below `best` a normal variable is expected to fall, nothing counted where it does not."""
    z = (best - mean) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in z])
    improvement: Array = deviation * (z * below + density)
    return improvement


def _squared_distances(a: Array, b: Array) -> Array:
    cross = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2.0 * a @ b.T
    squared: Array = np.maximum(cross, 0.0)
    return squared


def _matern(squared: Array) -> Array:
    r = np.sqrt(5.0 * squared)
    kernel: Array = (1.0 + r + r * r / 3.0) * np.exp(-r)
    return kernel


def _matern_slope(squared: Array) -> Array:
    """Derivative of the kernel by the squared distance."""
    r = np.sqrt(5.0 * squared)
    slope: Array = -5.0 / 6.0 * (1.0 + r) * np.exp(-r)
    return slope
