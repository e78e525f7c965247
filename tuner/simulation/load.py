"""Draws the client load of every broker by second: a daily sine, load steps, and autocorrelated noise."""

from __future__ import annotations

import math

import numpy as np

from tuner.simulation.numbers import Floats
from tuner.simulation.world import ClientLoad, LinkStep, LoadStep, World

_FACTOR_MIN = 0.05  # Noise never stops a broker's clients entirely.


def draw_load_factors(world: World, rng: np.random.Generator) -> Floats:
    """Returns by second and broker the factor on the mean load; the last second applies to all later ones."""
    seconds = math.ceil(world.duration_s_max) + 1
    loads = {load.broker: load for load in world.loads}
    broker_loads = [loads.get(spec.broker, ClientLoad(spec.broker)) for spec in world.brokers]
    at_s = np.arange(seconds, dtype=np.float64)[:, None]
    daily = np.array([load.daily_ratio for load in broker_loads])
    phase_s = np.array([load.daily_phase_s for load in broker_loads])
    day_s = np.array([load.day_s for load in broker_loads])
    factors = 1.0 + daily * np.sin(2.0 * np.pi * (at_s + phase_s) / day_s) + _noise(broker_loads, seconds, rng)
    with_steps: Floats = np.maximum(factors, _FACTOR_MIN) * _steps(world, LoadStep, seconds)
    return with_steps


def link_factors(world: World) -> Floats:
    """Returns by second and broker the usable share of its links."""
    return _steps(world, LinkStep, math.ceil(world.duration_s_max) + 1)


def _noise(loads: list[ClientLoad], seconds: int, rng: np.random.Generator) -> Floats:
    """Returns by second and broker a first-order autoregressive noise with each load's deviation and autocorrelation time."""
    ratio = np.array([load.noise_ratio for load in loads])
    decay = np.exp(-1.0 / np.array([load.noise_s for load in loads]))
    drawn = rng.standard_normal((seconds, len(loads)))
    noise = np.empty_like(drawn)
    level = drawn[0]
    for second in range(seconds):
        noise[second] = level
        level = decay * level + np.sqrt(1.0 - decay**2) * drawn[second]
    scaled: Floats = noise * ratio
    return scaled


def _steps(world: World, kind: type[LoadStep] | type[LinkStep], seconds: int) -> Floats:
    """Returns by second and broker the product of the factors of all steps of this kind."""
    factors = np.ones((seconds, len(world.brokers)))
    for step in world.disturbances:
        if isinstance(step, kind):
            indices = [i for i, spec in enumerate(world.brokers) if spec.broker in step.brokers]
            factors[math.floor(step.at_s) : math.floor(step.until_s), indices] *= step.factor
    return factors
