"""Something that learns in the environment: three weights, by the cross-entropy method.

    python -m narrows.gym.example

It draws policies at random, keeps those that earn most, draws the next ones around them, and so on
(R. Rubinstein, D. Kroese, "The Cross-Entropy Method", 2004). That is enough here, and needs nothing
beyond NumPy. On seeds that it has not seen, it then compares what it has learned with a fixed
window: the one that was best on the seeds of training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium  # type: ignore[import-not-found,unused-ignore]
import numpy as np

import narrows.gym  # noqa: F401 - registers the environment

Policy = Callable[[np.ndarray[Any, Any], dict[str, Any]], float]

TRAINING = range(1, 9)
UNSEEN = range(1001, 1041)
WINDOWS = (4, 8, 16, 32, 64, 128)


def earned(env: gymnasium.Env[Any, Any], policy: Policy, seeds: Iterable[int]) -> float:
    """What a policy earns in an episode, on average over seeds."""
    totals = []
    for seed in seeds:
        observation, info = env.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            action = np.array([policy(observation, info)], np.float32)
            observation, reward, _, done, info = env.step(action)
            total += float(reward)
        totals.append(total)
    return float(np.mean(totals))


def policy_of(weights: np.ndarray[Any, Any]) -> Policy:
    """Grows and shrinks the window by a weighted sum: of the delay, of losses, and a constant."""
    delay, loss, constant = map(float, weights)
    return lambda observation, _: math.tanh(
        10.0 * (delay * float(observation[1]) + loss * float(observation[3])) + constant
    )


def fixed(window: float) -> Policy:
    """A policy that takes the window to a fixed one, and keeps it there."""
    return lambda _, info: float(np.clip(np.log2(window / info["level"]), -1.0, 1.0))


def learn(
    env: gymnasium.Env[Any, Any],
    seeds: Iterable[int] = TRAINING,
    *,
    rounds: int = 8,
    policies: int = 20,
    kept: int = 5,
    seed: int = 0,
) -> np.ndarray[Any, Any]:
    """The weights of a policy that earns much.

    Args:
        env: The environment.
        seeds: The episodes in which each policy is tried.
        rounds: How often policies are drawn.
        policies: How many, each time.
        kept: Around how many of the best the next ones are drawn.
        seed: The seed of the draws.
    """
    draw = np.random.default_rng(seed)
    centre, spread = np.zeros(3), np.ones(3)
    episodes = list(seeds)
    for _ in range(rounds):
        tried = centre + spread * draw.standard_normal((policies, 3))
        gains = [earned(env, policy_of(weights), episodes) for weights in tried]
        best = tried[np.argsort(gains)[-kept:]]
        # A little more spread keeps the search from ending too soon.
        centre, spread = best.mean(axis=0), best.std(axis=0) + 0.05
    return centre


def main() -> None:
    """Learns, and prints what the policy and the best fixed window earn on unseen seeds."""
    env = gymnasium.make("narrows/Bottleneck-v0", action="window")
    began = time.perf_counter()
    weights = learn(env)
    print(f"learned in {time.perf_counter() - began:.0f} s: {np.round(weights, 2).tolist()}")
    best = max(WINDOWS, key=lambda window: earned(env, fixed(window), TRAINING))
    ours, theirs = (earned(env, policy, UNSEEN) for policy in (policy_of(weights), fixed(best)))
    print(f"on {len(UNSEEN)} unseen lines: learned {ours:.1f}, window of {best} {theirs:.1f}")


if __name__ == "__main__":
    main()
